// Which operands are packed once instead of in every run: in inference the weights, which nothing but the host writes.
// A kernel that reads one of them in an order of its own (Kernel::pack) gets a place where it stays like that; the
// executor fills the places whenever the host has written a variable. Equal instructions, as those of a layer that is
// used many times, share a place. Called once a program is whole: when it is compiled, and when it is read from a file,
// which does not know of it.
#pragma once

#include <cstdint>
#include <limits>

#include "aspen/runtime/program.h"

namespace aspen {

// Devices with a memory budget keep nothing twice; none does where all of it takes more than `most` bytes in all
// replicas.
void plan_packing(Program& program, std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

}  // namespace aspen
