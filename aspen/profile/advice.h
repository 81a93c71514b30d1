// Advice: what to do about a profile, in plain words with numbers. Each piece says how sure it is, what it would bring
// and which calls of the PopTorch API apply it. Numbers come from the profile alone; gains are estimates.
#pragma once

#include "aspen/profile/profile.h"

namespace aspen::profile {

// Most useful first: what does not fit, then by gain. `profile.analysis` is filled in but for the advice.
std::vector<Advice> advise(const Profile& profile);

// Parts of advise().
std::vector<Advice> advise_on_stages(const Profile& profile);   // which to split or merge
std::vector<Advice> advise_on_bubble(const Profile& profile);   // gradient accumulation and device iterations
std::vector<Advice> advise_on_memory(const Profile& profile);   // what to offload or recompute to meet the budget
std::vector<Advice> advise_on_host(const Profile& profile);     // ops that run on the host
std::vector<Advice> advise_on_loading(const Profile& profile);  // data loading, and the time between calls

}  // namespace aspen::profile
