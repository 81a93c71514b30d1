#include "poptorch/model/byte_limit.h"

#include <charconv>
#include <cstdlib>

#include "aspen/base/error.h"

namespace poptorch {

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  const char* end = text.data() + text.size();
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  const std::uint64_t factor = unit.empty()  ? 1
                               : unit == "K" ? 1 << 10
                               : unit == "M" ? 1 << 20
                               : unit == "G" ? 1 << 30
                                             : 0;
  if (error != std::errc() || factor == 0 || number > ~std::uint64_t{0} / factor) return std::nullopt;
  return number * factor;
}

std::uint64_t bytes_in_environment(const char* who, const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  const std::optional<std::uint64_t> bytes = parse_bytes(text);
  if (bytes) return *bytes;
  throw aspen::UserError("[{}] {} is \"{}\"; expected a number of bytes, with K, M or G behind it or not, such as 4G.",
                         who, variable, text);
}

}  // namespace poptorch
