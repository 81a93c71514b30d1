// The threads of one device: made by the executor for each worker that may use more than one thread, handed to kernels
// through StepContext. Work is cut by the kernels (see ThreadTeam); here it is only dealt out.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "aspen/backends/api/kernel.h"

namespace aspen {

// The thread that calls run() takes part, so num_threads - 1 helper threads are started; they live as long as the team.
// Helper i stays on cpus[i % cpus.size()]; no cpus: wherever the system puts it. A team of one has no helpers and runs
// everything in a plain loop. run() allocates nothing and is called by one thread at a time.
//
// Equal numbers of chunks go to the same threads every time, as far as all keep up: what a thread has made is in its
// cache. Helpers wait awake for a while and then sleep; they are woken when there is enough to do.
//
// All chunks are run even if one throws; the exception of the lowest chunk is thrown again, so that the message does
// not depend on timing.
std::unique_ptr<ThreadTeam> make_thread_team(std::size_t num_threads, std::vector<int> cpus = {});

// A team of a thread for each of the cpus whose caller runs wherever the system puts it: each helper stays on one of
// the other cpus, and makes way when the caller turns up on its own. Left alone, the system at times wakes a helper on
// the cpu of the caller, where the two wait for each other for milliseconds.
std::unique_ptr<ThreadTeam> make_team_around_caller(const std::vector<int>& cpus);

}  // namespace aspen
