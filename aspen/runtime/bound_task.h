// A task of one replica with its addresses filled in. The worker enters it once per round, which points the operands
// kept in slots at the slots of that round and those in the memory of the call at what belongs to that round, and then
// runs its instructions in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "aspen/runtime/program.h"
#include "aspen/runtime/replica_memory.h"

namespace aspen {

struct BoundInstruction {
  const Instruction* instruction = nullptr;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
  void* packed = nullptr;  // nullptr: the kernel packs nothing, or does so itself
  bool calls_host = false;
  std::size_t turn = 0;  // of an instruction that replicas run one after the other: 1 + its number among them
};

// An input of the program and where it goes, or an output and where it is taken from.
struct BoundCopy {
  std::size_t tensor = 0;
  BufferAddress address;  // nowhere if it is in the memory of the call
  Arena arena = Arena::kScratch;
  std::size_t owner = 0;  // the input or output of the call that it is
};

class BoundTask {
 public:
  BoundTask(const Task& task, const std::vector<ReplicaMemory>& memories, std::size_t replica);

  const Task& task() const { return *task_; }
  const std::vector<BoundInstruction>& instructions() const { return instructions_; }
  // Numbers the instructions that replicas run one after the other, beginning after `before` others.
  void number_turns(std::size_t before);
  const std::vector<BoundCopy>& inputs() const { return inputs_; }
  const std::vector<BoundCopy>& outputs() const { return outputs_; }

  void enter(std::int64_t round) {
    for (const auto& input : slot_inputs_) *input.place = input.address.at(round);
    for (const auto& output : slot_outputs_) *output.place = output.address.at(round);
  }
  // input(i), output(i): where those of the round are.
  template <class Input, class Output>
  void enter_call(const Input& input, const Output& output) {
    for (const auto& operand : call_inputs_) *operand.place = input(operand.tensor) + operand.offset;
    for (const auto& operand : call_reads_) *operand.place = output(operand.tensor) + operand.offset;
    for (const auto& operand : call_outputs_) *operand.place = output(operand.tensor) + operand.offset;
  }

 private:
  // An operand that changes from round to round; `place` is in instructions_, which never changes its size.
  template <class Pointer>
  struct SlotOperand {
    Pointer* place = nullptr;
    BufferAddress address;
  };
  // An operand in the memory of the call: a part of its input or output `tensor`.
  template <class Pointer>
  struct CallOperand {
    Pointer* place = nullptr;
    std::size_t tensor = 0, offset = 0;
  };
  void bind(const std::vector<ReplicaMemory>& memories, std::size_t replica, const Instruction& instruction);

  const Task* task_;
  std::vector<BoundInstruction> instructions_;
  std::vector<BoundCopy> inputs_, outputs_;
  std::vector<SlotOperand<const void*>> slot_inputs_;
  std::vector<SlotOperand<void*>> slot_outputs_;
  std::vector<CallOperand<const void*>> call_inputs_, call_reads_;  // inputs, and outputs that are read again
  std::vector<CallOperand<void*>> call_outputs_;
};

}  // namespace aspen
