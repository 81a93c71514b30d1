// Programs changed where it means something: types with the buffers they need, attributes, ops, places, flags. Bytes
// changed at random hardly ever agree with each other; these do, and come to what only the rules of ops can refuse.
#pragma once

#include "aspen/runtime/program.h"
#include "mutate.h"

namespace aspen::testing {

// One to three changes.
void mutate_program(Program& program, Random& random);

}  // namespace aspen::testing
