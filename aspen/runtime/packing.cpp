#include "aspen/runtime/packing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

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

// Calls f(task, instruction) for each instruction with an operand that stays as it is.
template <class F>
void for_each_packing(Program& program, F&& f) {
  const std::vector<BufferRef> written = written_variables(program);
  for (Task& task : program.step) {
    if (program.devices[task.device].budget_bytes != 0) continue;
    for (Instruction& instruction : task.instructions) {
      const std::size_t bytes = instruction.kernel->packed_bytes(), input = instruction.kernel->packed_input();
      if (bytes == 0 || input >= instruction.inputs.size()) continue;
      const BufferRef& operand = instruction.inputs[input];
      const bool stays =
          operand.arena == Arena::kVariables && !operand.absent &&
          std::none_of(written.begin(), written.end(), [&](const BufferRef& place) { return overlap(place, operand); });
      if (stays) f(task, instruction);
    }
  }
}

void forget_packing(Program& program) {
  for (Task& task : program.step) {
    for (Instruction& instruction : task.instructions) {
      instruction.packed = {};
      instruction.fills_packed = false;
    }
  }
}

}  // namespace

void plan_packing(Program& program, std::uint64_t most) {
  if (program.training) return;
  // What a kernel makes of an operand that lies at one place. A device keeps its own.
  std::map<std::tuple<std::size_t, const Kernel*, std::size_t>, BufferRef> places;
  std::vector<std::size_t> ends(program.devices.size());
  for_each_packing(program, [&](const Task& task, Instruction& instruction) {
    const Kernel* kernel = instruction.kernel.get();
    const std::size_t offset = instruction.inputs[kernel->packed_input()].offset, bytes = kernel->packed_bytes();
    const auto [place, is_new] = places.try_emplace(
        {task.device, kernel, offset},
        BufferRef{.arena = Arena::kPacked, .owner = task.device, .offset = ends[task.device], .bytes = bytes});
    if (is_new) ends[task.device] += slot_stride(bytes);
    instruction.packed = place->second;
    instruction.fills_packed = is_new;
  });
  const std::uint64_t total = std::accumulate(ends.begin(), ends.end(), std::uint64_t{0});
  if (total > most / program.replicas) return forget_packing(program);
  for (std::size_t device = 0; device < ends.size(); ++device) program.devices[device].packed_bytes = ends[device];
}

}  // namespace aspen
