#include "poptorch/model/byte_limit.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "aspen/base/error.h"

namespace poptorch {

std::uint64_t bytes_in_environment(const char* who, const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  const char* end = text + std::strlen(text);
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text, end, number);
  const std::string unit(stop, end);
  const std::uint64_t factor = unit.empty()  ? 1
                               : unit == "K" ? 1 << 10
                               : unit == "M" ? 1 << 20
                               : unit == "G" ? 1 << 30
                                             : 0;
  if (error != std::errc() || factor == 0 || number > ~std::uint64_t{0} / factor) {
    throw aspen::UserError(
        "[{}] {} is \"{}\"; expected a number of bytes, with K, M or G behind it or not, such as 4G.", who, variable,
        text);
  }
  return number * factor;
}

}  // namespace poptorch
