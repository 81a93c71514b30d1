#include "aspen/profile/text_format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>

namespace aspen::profile {
namespace {

std::string scaled(double value, double step, std::span<const char* const> units) {
  std::size_t unit = 0;
  while (std::abs(value) >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return fmt::format("{} {}", number_text(value), units[unit]);
}

}  // namespace

std::string number_text(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 100 || value == 0 ? 0 : size >= 10 ? 1 : 2);
}

std::string time_text(double nanoseconds) {
  static constexpr std::array kUnits{"ns", "µs", "ms", "s"};
  return scaled(nanoseconds, 1000, kUnits);
}

std::string bytes_text(double bytes) {
  static constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  return std::abs(bytes) < 1024 ? fmt::format("{:.0f} B", bytes) : scaled(bytes, 1024, kUnits);
}

std::string rate_text(double flops) {
  static constexpr std::array kUnits{"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"};
  return scaled(flops, 1000, kUnits);
}

std::string percent_text(double share) {
  const double value = 100 * share;
  return fmt::format("{:.{}f} %", value, value != 0 && std::abs(value) < 9.95 ? 1 : 0);
}

}  // namespace aspen::profile
