// The part of a profile that was measured, from what a RunRecorder has recorded.
#pragma once

#include <chrono>
#include <vector>

#include "aspen/profile/profile.h"
#include "aspen/runtime/run_recorder.h"

namespace aspen {

// A copy of what a recorder holds, taken between two calls, so that it may be read while others follow.
struct RecordedRun {
  std::vector<RecordedWorker> workers;
  std::vector<WorkerRecord> records;
  EventRing<RecordedCall> calls;
};
RecordedRun copy_of(const RunRecorder& recorder);

// Workers, calls, the trace, and what is measured of ops. The tables of tasks and ops are those of describe_tasks.
// origin: when the profile began.
void describe_run(const Program& program, const RecordedRun& run, RunRecorder::Clock::time_point origin,
                  profile::Profile& profile);

}  // namespace aspen
