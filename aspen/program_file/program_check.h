// Whether a program that comes from outside keeps within its own bounds, and these within the given ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "aspen/runtime/program.h"

namespace aspen {

std::uint64_t memory_of_this_machine();  // bytes, with what can be swapped out

// What a program from outside may ask for: a file of a few bytes can name any number.
struct ProgramLimits {
  std::uint64_t memory = memory_of_this_machine();  // bytes of all devices of all replicas, and off the devices
  std::size_t devices = 4096;                       // of all replicas
};

std::size_t memory_of(const Program& program);  // of all replicas, without operands that are kept packed

// A FileError says what does not fit: an index without a thing behind it, a place outside of its arena, a buffer of
// another size than its type, operands that lie over each other, tasks that would wait forever, an op that would give
// other results than it says. Afterwards an executor can be made of the program, and what it runs stays within the
// buffers. Kernels are not looked at.
void check_program(const Program& program, const ProgramLimits& limits = {});

}  // namespace aspen
