#include "poptorch/model/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace poptorch {

std::string summary(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  if (names.size() <= kShown + 1) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kShown, ", "), names.size() - kShown);
}

}  // namespace poptorch
