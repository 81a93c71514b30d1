// A profile as Chrome trace events, for Perfetto and chrome://tracing.
#pragma once

#include <string>

#include "aspen/profile/profile.h"

namespace aspen::profile {

// A process per replica, a thread per device, blocks with their ops inside; the host beside them. Ops of blocks are
// left out once there are max_ops of them, so that viewers still open the file; "otherData" then says how many are
// missing.
std::string to_trace_json(const Profile& profile, std::int64_t max_ops = 200'000);

}  // namespace aspen::profile
