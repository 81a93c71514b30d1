// Numbers as people read them, as on the page: three digits that matter, and a unit.
#pragma once

#include <cstdint>
#include <string>

namespace aspen::profile {

std::string time_text(double nanoseconds);  // "4.06 s", "12.3 ms"
std::string bytes_text(double bytes);       // "201 MiB"
std::string rate_text(double flops);        // per second: "72.1 GFLOP/s"
std::string percent_text(double share);     // "3.0 %", "40 %"
std::string number_text(double value);      // "7.88"

}  // namespace aspen::profile
