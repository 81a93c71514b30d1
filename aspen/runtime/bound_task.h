// A task of one replica with its addresses filled in. The worker enters it once per round, which points the operands
// kept in slots at the slots of that round, and then runs its instructions in order.
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
  bool calls_host = false;
  std::size_t turn = 0;  // of an instruction that replicas run one after the other: 1 + its number among them
};

// An input of the program and where it goes, or an output and where it is taken from.
struct BoundCopy {
  std::size_t tensor = 0;
  BufferAddress address;
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

 private:
  // An operand that changes from round to round; `place` is in instructions_, which never changes its size.
  template <class Pointer>
  struct SlotOperand {
    Pointer* place = nullptr;
    BufferAddress address;
  };
  void bind(const std::vector<ReplicaMemory>& memories, std::size_t replica, const Instruction& instruction);

  const Task* task_;
  std::vector<BoundInstruction> instructions_;
  std::vector<BoundCopy> inputs_, outputs_;
  std::vector<SlotOperand<const void*>> slot_inputs_;
  std::vector<SlotOperand<void*>> slot_outputs_;
};

}  // namespace aspen
