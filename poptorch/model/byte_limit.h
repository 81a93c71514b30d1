// Limits in bytes that users set in the environment.
#pragma once

#include <cstdint>

namespace poptorch {

// What the variable says: bytes, or a number with K, M or G behind it; `otherwise` without it. UserError, which names
// `who` uses it, if it says something else.
std::uint64_t bytes_in_environment(const char* who, const char* variable, std::uint64_t otherwise);

}  // namespace poptorch
