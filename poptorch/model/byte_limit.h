// Limits in bytes that users set in the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace poptorch {

// Of a number of bytes with K, M or G behind it or not, such as "4G"; nothing if the text is none.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

// What the variable says: bytes, or a number with K, M or G behind it; `otherwise` without it. UserError, which names
// `who` uses it, if it says something else.
std::uint64_t bytes_in_environment(const char* who, const char* variable, std::uint64_t otherwise);

}  // namespace poptorch
