// Whether an instruction that comes from outside is what its op allows, over operands that may lie where they do.
#pragma once

#include <cstddef>
#include <span>

#include "aspen/compiler/ir/graph.h"
#include "aspen/program_file/place_check.h"

namespace aspen {

// Numbers among the attributes that an op over tensors of these types could mean.
void check_attributes(const Attrs& attrs, std::span<const TensorType> types);

class InstructionCheck {
 public:
  explicit InstructionCheck(const Program& program) : program_(program), places_(program) {}

  // Of a task on `device`.
  void check(const Instruction& instruction, std::size_t device, bool in_update) const;

 private:
  void check_copy(const Instruction& instruction, std::size_t device) const;
  void check_places(const Instruction& instruction, std::size_t device) const;
  void check_op(const Instruction& instruction, const Op& op, bool in_update) const;
  void check_memory_of_call(const Instruction& instruction) const;

  const Program& program_;
  PlaceCheck places_;
};

}  // namespace aspen
