// What an instruction computes and moves: a count from the shapes of its operands, for shares of what the machine could
// do. Used by describe_program.
#pragma once

#include <cstdint>
#include <string>

#include "aspen/runtime/program.h"

namespace aspen {

// Multiplications and additions of one call: two for each product of matrix products and convolutions, one for each
// element of what works element by element or adds up, none for what only moves data or runs on the host.
double flops_of(const Instruction& instruction);

// Of its operands, each read or written once.
std::int64_t bytes_read(const Instruction& instruction);
std::int64_t bytes_written(const Instruction& instruction);

// Ops fused into the instruction, and what it is called: of a group the names of its parts, "add, mul, relu".
std::int64_t num_parts(const Instruction& instruction);
std::string shown_name(const Instruction& instruction);
// Whether it moves data and computes nothing.
bool only_moves(const Instruction& instruction);

}  // namespace aspen
