// The part of a profile that does not change while a program runs: tasks, waits, ops, and the memory. Everything is
// found in the program itself, so that programs from files and from the cache are described as well.
#pragma once

#include <string>

#include "aspen/profile/profile.h"
#include "aspen/runtime/program.h"

namespace aspen {

// Tasks are rows in the order of the program: those of a step, then those of an update.
void describe_tasks(const Program& program, profile::Profile& profile);

// Regions and buffers; after describe_tasks.
void describe_memory(const Program& program, profile::Profile& profile);

// "single device", "sharded" where devices take turns, "pipelined".
std::string execution_of(const Program& program);

}  // namespace aspen
