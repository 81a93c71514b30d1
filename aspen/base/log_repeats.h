// Which lines of the log are repetitions; the option maxRepeatLogs. The log of the core asks, and so does that of the
// Python package.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace aspen::log {

// From now on each line is written so many times and no more; nullopt: always. Lines written before count no longer.
void limit_repeats(std::optional<std::int64_t> times);

// Counts the line. False if it has been written often enough.
bool is_wanted(std::string_view line);

}  // namespace aspen::log
