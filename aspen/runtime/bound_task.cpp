#include "aspen/runtime/bound_task.h"

#include "aspen/runtime/task_order.h"

namespace aspen {
namespace {

BoundCopy bound_copy(const ReplicaMemory& memory, std::size_t tensor, const BufferRef& place) {
  if (is_of_call(place.arena)) return {.tensor = tensor, .address = {}, .arena = place.arena, .owner = place.owner};
  return {.tensor = tensor, .address = memory.address(place)};
}

}  // namespace

BoundTask::BoundTask(const Task& task, const std::vector<ReplicaMemory>& memories, std::size_t replica) : task_(&task) {
  const ReplicaMemory& memory = memories[replica];
  instructions_.reserve(task.instructions.size());
  for (const Instruction& instruction : task.instructions) bind(memories, replica, instruction);
  for (const InputCopy& copy : task.inputs) inputs_.push_back(bound_copy(memory, copy.input, copy.to));
  for (const OutputCopy& copy : task.outputs) outputs_.push_back(bound_copy(memory, copy.output, copy.from));
}

void BoundTask::bind(const std::vector<ReplicaMemory>& memories, std::size_t replica, const Instruction& instruction) {
  const ReplicaMemory& memory = memories[replica];
  BoundInstruction& bound = instructions_.emplace_back();
  bound.instruction = &instruction;
  bound.calls_host = instruction.kernel->calls_host();
  // The first input stands for one of each replica: a variable, or a value in a lane with one slot.
  const std::size_t more = instruction.spans_replicas ? memories.size() - 1 : 0;
  bound.inputs.resize(instruction.inputs.size() + more);
  bound.outputs.resize(instruction.outputs.size());
  auto place = [&](const BufferRef& buffer, auto& pointer, auto& slot_operands, auto& call_operands) {
    if (!buffer.absent && is_of_call(buffer.arena)) {
      call_operands.push_back({.place = &pointer, .tensor = buffer.owner, .offset = buffer.offset});
      return;
    }
    BufferAddress address = memory.address(buffer);
    pointer = address.base;
    if (address.depth > 1) slot_operands.push_back({.place = &pointer, .address = address});
  };
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
    if (i == 0 && instruction.spans_replicas) continue;
    auto& call_operands = instruction.inputs[i].arena == Arena::kInputs ? call_inputs_ : call_reads_;
    place(instruction.inputs[i], bound.inputs[i + more], slot_inputs_, call_operands);
  }
  for (std::size_t other = 0; instruction.spans_replicas && other < memories.size(); ++other) {
    bound.inputs[other] = memories[other].address(instruction.inputs[0]).base;
  }
  for (std::size_t i = 0; i < bound.outputs.size(); ++i) {
    place(instruction.outputs[i], bound.outputs[i], slot_outputs_, call_outputs_);
  }
  if (instruction.packed.bytes != 0) bound.packed = memory.address(instruction.packed).base;
  if (instruction.workspace.bytes != 0) place(instruction.workspace, bound.workspace, slot_outputs_, call_outputs_);
}

void BoundTask::number_turns(std::size_t before) {
  for (BoundInstruction& bound : instructions_) {
    if (is_in_turns(*bound.instruction)) bound.turn = ++before;
  }
}

}  // namespace aspen
