// Whether the tables of a profile fit together.
#pragma once

#include "aspen/profile/profile.h"

namespace aspen::profile {

// Every row that is referred to exists, and what lies in order does. Otherwise a UserError that names the field.
void check(const Profile& profile);

}  // namespace aspen::profile
