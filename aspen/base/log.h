// The log of the core: one line per event that helps to understand a run. The level comes from POPTORCH_LOG_LEVEL
// (TRACE, DEBUG, INFO, WARN, ERR, OFF; WARN unless set), the destination from POPTORCH_LOG_DEST ("stderr",
// "stdout" or a file name).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

namespace aspen::log {

enum class Level : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };

Level level();
void set_level(Level level);
void set_level(std::string_view name);  // by the names above; others: UserError
inline bool is_enabled(Level wanted) { return wanted >= level(); }
void write(Level level, std::string_view text);

template <class... Args>
void trace(fmt::format_string<Args...> format, Args&&... args) {
  if (is_enabled(Level::kTrace)) write(Level::kTrace, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (is_enabled(Level::kDebug)) write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (is_enabled(Level::kInfo)) write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (is_enabled(Level::kWarn)) write(Level::kWarn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (is_enabled(Level::kError)) write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace aspen::log
