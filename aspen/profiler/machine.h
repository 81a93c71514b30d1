// What the machine can do at best, so that a profile can tell how far a program is from it. Measured once per process,
// in some ten milliseconds.
#pragma once

#include "aspen/profile/profile.h"

namespace aspen {

profile::Machine describe_machine();

}  // namespace aspen
