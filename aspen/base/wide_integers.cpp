#include "aspen/base/wide_integers.h"

#include <algorithm>

#include "aspen/base/error.h"

namespace aspen {

void fail_too_wide(const std::int64_t* x, std::int64_t n, std::string_view whose) {
  const auto is_too_wide = [](std::int64_t value) { return value != static_cast<std::int32_t>(value); };
  const auto* first = std::find_if(x, x + n, is_too_wide);
  if (first == x + n) throw InternalError("{} integers of {} fit into 32 bits", n, whose);
  throw UserError("[types] {} holds {} among its integers, {}.", whose, *first, kIntegerRule);
}

}  // namespace aspen
