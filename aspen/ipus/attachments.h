// Which executors are attached, in all processes of the machine and of all users. Read by gc-monitor, and by who looks
// for IPUs that are free. What processes left behind that are gone is removed on the way.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "aspen/ipus/busy_clock.h"

namespace aspen {

struct AttachedIpu {
  std::int64_t ipu = 0;
  std::uint64_t memory = 0, host_memory = 0;  // bytes on the device and off it, as planned
  std::int64_t busy = 0;                      // nanoseconds it has computed
};

struct Attachment {
  std::string key;  // the same as long as the executor is attached, and nobody else's
  std::int64_t pid = 0;
  uid_t user = 0;
  std::string command, model;
  std::optional<std::int64_t> device;  // the id that the program asked for
  double seconds = 0;                  // since it was attached
  std::vector<AttachedIpu> ipus;
};

struct Attachments {
  BusyClock::Clock::time_point time;   // of this look at them
  std::vector<Attachment> executors;   // by process, in the order in which they were attached
  std::vector<std::string> passed_by;  // files that say nothing, each with the reason
};

// UserError if there is a folder of them that cannot be read.
Attachments read_attachments();
// Of a folder that is open, by who holds OwnFiles::mutex(). Nothing that is wrong with a file is an error.
Attachments attachments_in(int folder, const std::string& path);

std::string user_name(uid_t user);  // its number if it has no name

// The share of the time between two looks that an IPU of an executor computed, 0 to 1; since it was attached if the
// executor is not in the earlier look.
double utilisation(const Attachments& before, const Attachments& after, const Attachment& executor,
                   const AttachedIpu& ipu);

}  // namespace aspen
