// The IPUs of the machine one by one: who is on each, and what it does. For gc-monitor and gc-info.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "aspen/ipus/attachments.h"

namespace aspen {

struct IpuOverview {
  std::vector<std::int64_t> pids;  // of the processes that are attached, ascending
  std::uint64_t memory = 0;        // bytes of all of them
  double utilisation = 0;          // 0 to 1
  bool is_leased = false;  // asked for by its id: by one of these or, if there are none, by a process that compiles

  const char* state() const { return !pids.empty() ? "attached" : is_leased ? "reserved" : "free"; }
};

// All kMaxIpus of them, from two looks.
std::vector<IpuOverview> overview_of_ipus(const Attachments& before, const Attachments& after);

// The IPUs of a device taken together.
IpuOverview overview_of_device(const std::vector<IpuOverview>& ipus, std::int64_t device);

// "3", or "4-7" for several in a row.
std::string ids_text(std::int64_t first, std::int64_t count);

}  // namespace aspen
