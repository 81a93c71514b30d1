// The part of a profile that does not change while a program runs: tasks, waits, ops, and the memory. Everything is
// found in the program itself, so that programs from files and from the cache are described as well.
#pragma once

#include <set>
#include <string>

#include "aspen/profile/profile.h"
#include "aspen/runtime/program.h"

namespace aspen {

// Tasks are rows in the order of the program: those of a step, then those of an update.
void describe_tasks(const Program& program, profile::Profile& profile);

// Regions and buffers; after describe_tasks. parameters: names of variables that are weights; empty: those that no step
// writes, and that no part of the compiler has named, are.
void describe_memory(const Program& program, const std::set<std::string>& parameters, profile::Profile& profile);

// "single device", "sharded" where devices take turns, "pipelined".
std::string execution_of(const Program& program);

}  // namespace aspen
