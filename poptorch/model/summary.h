// Lists of names in messages.
#pragma once

#include <string>
#include <vector>

namespace poptorch {

// "a, b, c and 37 more"
std::string summary(const std::vector<std::string>& names);

}  // namespace poptorch
