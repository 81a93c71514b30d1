// What executors tell of the time of their latest call. Both APIs ask here.
#pragma once

#include "poptorch/api/option_store.h"
#include "poptorch/model/session.h"
#include "poptorch/perf_counters.h"

namespace poptorch {

PerfCounters perf_counters(const Session& session);

// From the first request of an input to the last output written, and the parts of that.
enum class LatencyOf {
  kCall,
  kHostToIpu,  // first request of an input to last input arrived
  kCompute,    // last input arrived to last output ready
  kIpuToHost,  // first output ready to last output written
};
// Where an output stands for several micro-batches, their inputs are shared out evenly and the earliest one counts.
Latency latency(const Session& session, LatencyOf part);

// An Error unless options.logCycleCount is on and the model has run.
std::int64_t cycle_count(const Session& session, const OptionStore& options);

}  // namespace poptorch
