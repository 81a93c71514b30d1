// Times of the latest call of a model, taken where its inputs reach the device and its outputs the host.
#pragma once

#include <vector>

namespace poptorch {

// Seconds of a clock of which only differences have a meaning. Per tensor, and in it per transfer: one for each
// micro-batch (of outputs: that is returned) and replica, in that order. One empty list where there are no tensors, and
// before the first call.
struct PerfCounters {
  using Times = std::vector<std::vector<double>>;
  Times input;            // the device asked for an input
  Times input_complete;   // it has arrived
  Times output;           // an output was ready
  Times output_complete;  // the host has it
};

// Seconds over all micro-batches of the latest call that returned something. All 0 without inputs or outputs.
struct Latency {
  double minimum = 0, maximum = 0, average = 0;
};

}  // namespace poptorch
