// Whether a program that comes from outside keeps within its own bounds.
#pragma once

#include "aspen/runtime/program.h"

namespace aspen {

// A FileError says what does not fit: an index without a thing behind it, a place outside of its arena, a buffer of
// another size than its type, an op that would give other results than it says. Kernels are not looked at.
void check_program(const Program& program);

}  // namespace aspen
