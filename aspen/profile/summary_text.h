// What the page says, as text for a terminal or a log of CI. Lines end with "\n"; nothing is coloured.
#pragma once

#include <string>

#include "aspen/profile/compare.h"
#include "aspen/profile/profile.h"

namespace aspen::profile {

// Of a finished profile: the run, its numbers, advice, stages, memory and the ops that take the most time.
std::string summary_text(const Profile& profile);
std::string summary_text(const Comparison& comparison);

}  // namespace aspen::profile
