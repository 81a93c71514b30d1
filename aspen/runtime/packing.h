// Which operands are packed once instead of in every run: in inference the weights, which nothing but the host writes.
// A kernel that reads one of them in an order of its own (Kernel::pack) gets a place where it stays like that; the
// executor fills the places whenever the host has written a variable. Called once a program is whole: when it is
// compiled, and when it is read from a file, which does not know of it.
#pragma once

#include "aspen/runtime/program.h"

namespace aspen {

// Devices with a memory budget keep nothing twice.
void plan_packing(Program& program);

}  // namespace aspen
