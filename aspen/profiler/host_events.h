// What the host does beside the devices, for profiles: trace points of the user and of the library, and time spent
// waiting for data. One log for the process; it is written to only while somebody profiles. Any thread may call.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "aspen/profile/profile.h"

namespace aspen::host_events {

using Clock = std::chrono::steady_clock;

bool is_on();
// While one lives, events are kept: the latest few thousand.
class Scope {
 public:
  Scope();
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

void add(std::string track, std::string name, Clock::time_point begin, Clock::time_point end);
// Those that have ended after `origin`; times count from there.
std::vector<profile::HostEvent> since(Clock::time_point origin);

// A wait for the next item of a data loader.
void add_loading(Clock::duration time);
std::chrono::nanoseconds loading();  // of all so far

}  // namespace aspen::host_events
