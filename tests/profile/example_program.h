// The program of an example: tasks, waits, ops and memory, without times.
#pragma once

#include "tests/profile/example_profile.h"

namespace aspen::testing {

// Micro-batches that a stage may have under way.
std::int64_t example_depth(const ExampleModel& model, std::int64_t stage);

void add_example_program(const ExampleModel& model, profile::Profile& profile);
void add_example_memory(const ExampleModel& model, profile::Profile& profile);

}  // namespace aspen::testing
