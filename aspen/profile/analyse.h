// From what was measured to what it means. Called when a profile is written; everything here follows from the tables.
#pragma once

#include "aspen/profile/profile.h"

namespace aspen::profile {

// Everything but the advice (advice.h).
Analysis analyse(const Profile& profile);

// Parts of analyse().
std::vector<WorkerShares> shares_of_workers(const Profile& profile);
std::vector<StageTime> times_of_stages(const Profile& profile);
// By op: nanoseconds of one call by a roofline of the threads of its device; 0: the machine's peak is not known.
std::vector<std::int64_t> limits_of_ops(const Profile& profile);
std::vector<DeviceUse> use_of_memory(const Profile& profile);
// The chain of blocks that the last traced call waited for, from its end back: each began when the one before it, on
// the same thread or on one it waits for, was finished.
std::vector<std::int64_t> critical_path(const Profile& profile);

// Times that an op runs in one device iteration, in all replicas.
double runs_per_iteration(const Profile& profile, const Op& op);

}  // namespace aspen::profile
