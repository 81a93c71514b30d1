#include "aspen/runtime/program.h"

#include <algorithm>

namespace aspen {
namespace {

std::size_t bytes_of_slots(const Program& program, std::size_t device, std::size_t Lane::*slot_bytes) {
  std::size_t bytes = 0;
  for (const Lane& lane : program.lanes) {
    if (lane.device == device) bytes += static_cast<std::size_t>(lane.depth) * slot_stride(lane.*slot_bytes);
  }
  return bytes;
}

double sum_of_device(const std::vector<Task>& tasks, std::size_t device) {
  double sum = 0;
  for (const Task& task : tasks) {
    if (task.device == device) sum += task.nanoseconds;
  }
  return sum;
}

}  // namespace

DeviceGuess guessed_nanoseconds(const Program& program, std::size_t device) {
  return {.micro_batch = sum_of_device(program.step, device), .update = sum_of_device(program.update, device)};
}

double guessed_nanoseconds_of_step(const Program& program, std::int64_t micro_batches) {
  double longest = 0;
  for (std::size_t device = 0; device < program.devices.size(); ++device) {
    const DeviceGuess guess = guessed_nanoseconds(program, device);
    longest = std::max(longest, static_cast<double>(micro_batches) * guess.micro_batch + guess.update);
  }
  return longest;
}

std::size_t planned_slot_bytes(const Program& program, std::size_t device) {
  return bytes_of_slots(program, device, &Lane::slot_bytes);
}

std::size_t planned_host_slot_bytes(const Program& program, std::size_t device) {
  return bytes_of_slots(program, device, &Lane::host_slot_bytes);
}

std::size_t planned_bytes(const Program& program, std::size_t device) {
  const DevicePlan& plan = program.devices.at(device);
  return plan.variable_bytes + plan.constant_bytes + plan.scratch_bytes + plan.packed_bytes +
         planned_slot_bytes(program, device);
}

std::size_t planned_host_bytes(const Program& program, std::size_t device) {
  return program.devices.at(device).host_variable_bytes + planned_host_slot_bytes(program, device);
}

}  // namespace aspen
