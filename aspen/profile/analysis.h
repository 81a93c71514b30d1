// What follows from a profile: the numbers of the page's summary, and advice. Made once, when a profile is written, and
// kept with the profile, so that the page, the text and whoever reads the file say the same. Shares are between 0
// and 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace aspen::profile {

// How a worker spent the traced calls.
struct WorkerShares {
  std::int64_t worker = 0;
  double busy = 0;      // forward, backward and update
  double transfer = 0;  // inputs, outputs, exchanges and moves
  double ramp = 0;      // waiting before the first micro-batch came to it and after the last had left
  double bubble = 0;    // waiting in between
  double shared = 0;    // while its thread worked for another device
};

// A stage of the model: what one micro-batch costs, on average.
struct StageTime {
  std::int64_t stage = 0, device = 0;
  std::int64_t forward = 0, backward = 0, update = 0;  // update: once per weight update
};

struct DeviceUse {
  std::int64_t device = 0;
  std::int64_t reserved = 0;       // bytes of all its regions
  std::int64_t always_live = 0;    // bytes alive all the time
  std::int64_t peak = 0;           // most bytes alive at once
  std::int64_t peak_op = -1;       // while this op runs
  std::int64_t reserved_host = 0;  // bytes kept off the device for it
};

enum class Confidence : std::uint8_t { kLow, kMedium, kHigh };

// Something to do about it, most useful first.
struct Advice {
  std::string topic;  // "pipeline", "memory", "host", "data", "kernel"
  std::string title;  // "Move layer3 from device 1 to device 2"
  std::string why;    // in plain words, with numbers
  std::string how;    // calls of the PopTorch API
  Confidence confidence = Confidence::kMedium;
  double gain = 0;               // part of the time that would be saved
  std::int64_t saved_bytes = 0;  // of the device with the highest peak
};

struct Analysis {
  std::int64_t calls = 0;          // measured: all but the first, which warms up, where there are others
  std::int64_t call_duration = 0;  // median
  std::int64_t iteration = 0;      // median of one device iteration: in training, of one weight update
  double samples_per_second = 0;   // from the begin of the first measured call to the end of the last
  double flops_per_iteration = 0;  // of all replicas
  double flops_per_second = 0;     // while calls run
  double share_of_peak = 0;        // of Machine::all; 0: not known
  double host_share = 0;           // of the time, between calls
  double loading_share = 0;        // of the time, waiting for the data loader
  double ramp = 0, bubble = 0;     // of all workers
  std::vector<WorkerShares> workers;
  std::vector<StageTime> stages;
  std::vector<DeviceUse> memory;
  std::vector<std::int64_t> op_limits;      // by op: what a call would take at the machine's limits; 0: not known
  std::vector<std::int64_t> critical_path;  // rows of blocks, of one traced call, by begin
  std::vector<Advice> advice;
};

}  // namespace aspen::profile
