#include "aspen/runtime/packing.h"

#include <algorithm>

namespace aspen {
namespace {

bool overlap(const BufferRef& a, const BufferRef& b) {
  return a.owner == b.owner && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// Places of variables that the program itself writes.
std::vector<BufferRef> written_variables(const Program& program) {
  std::vector<BufferRef> written;
  const auto note = [&](const BufferRef& place) {
    if (place.arena == Arena::kVariables && !place.absent) written.push_back(place);
  };
  for (const Task& task : program.step) {
    for (const InputCopy& copy : task.inputs) note(copy.to);
    for (const Instruction& instruction : task.instructions) {
      for (const BufferRef& place : instruction.outputs) note(place);
      if (instruction.workspace.bytes != 0) note(instruction.workspace);
    }
  }
  return written;
}

}  // namespace

void plan_packing(Program& program) {
  if (program.training) return;
  const std::vector<BufferRef> written = written_variables(program);
  for (Task& task : program.step) {
    DevicePlan& device = program.devices[task.device];
    if (device.budget_bytes != 0) continue;
    for (Instruction& instruction : task.instructions) {
      const std::size_t bytes = instruction.kernel->packed_bytes(), input = instruction.kernel->packed_input();
      if (bytes == 0 || input >= instruction.inputs.size()) continue;
      const BufferRef& operand = instruction.inputs[input];
      const bool stays =
          operand.arena == Arena::kVariables && !operand.absent &&
          std::none_of(written.begin(), written.end(), [&](const BufferRef& place) { return overlap(place, operand); });
      if (!stays) continue;
      instruction.packed = {
          .arena = Arena::kPacked, .owner = task.device, .offset = device.packed_bytes, .bytes = bytes};
      device.packed_bytes += slot_stride(bytes);
    }
  }
}

}  // namespace aspen
