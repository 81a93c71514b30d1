// The order in which each crew runs the tasks of its devices: found once by simulating the crews, then followed by
// every run, so that what a device does next never depends on timing. Called by the executor.
#pragma once

#include <cstdint>
#include <vector>

#include "aspen/runtime/program.h"

namespace aspen {

struct TaskRun {
  std::size_t task = 0;
  std::int64_t round = 0;
  bool operator==(const TaskRun&) const = default;
};

// Per crew the runs of the tasks of its devices, in order.
using TaskOrder = std::vector<std::vector<TaskRun>>;

// List scheduling of `rounds` rounds of all tasks: an idle crew starts, among the tasks of its devices whose waits are
// over, the one of the oldest round, and of these the latest in the program. A pipeline with a crew per device becomes
// "one forward, one backward" that way, and since the orders are those of one simulated run they cannot lead into a
// deadlock. Every task runs its rounds in ascending order, whoever shares a crew. Waits that can never be satisfied are
// an InternalError.
TaskOrder order_tasks(const std::vector<Task>& tasks, const std::vector<std::size_t>& crew_of_device,
                      std::int64_t rounds);
// With a crew per device.
TaskOrder order_tasks(const std::vector<Task>& tasks, std::size_t num_devices, std::int64_t rounds);

// Whether the waits let only one device compute at a time: each task with instructions, other than those that only
// bring values, comes after the one before it in the list, and the first of a round after the last of the round before.
bool take_turns(const std::vector<Task>& tasks);

// Whether replicas run an instruction one after the other: each adds to what all share.
bool is_in_turns(const Instruction& instruction);
// How many such instructions the steps of a program have.
std::size_t num_turns(const Program& program);

}  // namespace aspen
