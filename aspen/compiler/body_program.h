// A body, ready to run: its kernels and a plan of its memory. Made by control_kernels.cpp, as a part of a kernel.
//
// Operands and results are arguments, which the caller points at memory; a carried value is one argument, read and then
// written. For the plan they are variables, and what the body returns is assigned to them: results are written straight
// into their place, a carried value in place wherever the order of the ops allows it. All else lies in the workspace,
// which a body has for itself while it runs, or is a constant of the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/ir/graph.h"
#include "aspen/runtime/arena_memory.h"
#include "aspen/runtime/program.h"

namespace aspen {

struct MemoryPlan;

class BodyProgram {
 public:
  // The first `carried` results take the place of the first operands. `owner`: what is asked of the op that owns the
  // body; how it is to round holds for the ops in it.
  BodyProgram(const Graph& body, std::size_t carried, const KernelRequest& owner, const Backend& backend);

  // Numbers of arguments: operand i is argument i, and so is result i if it is carried; the other results follow.
  std::size_t num_arguments() const { return argument_bytes_.size(); }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  bool calls_host() const;
  void reserve(std::size_t num_threads) const;

  // Allocates nothing. First all arguments are bound, those that change from run to run again before each.
  void begin(std::byte* workspace) const;
  void bind(std::byte* workspace, std::size_t argument, std::byte* memory) const;
  void run(std::byte* workspace, const StepContext& step) const;

 private:
  struct Call {
    std::shared_ptr<const Kernel> kernel;
    std::size_t first_input = 0, num_inputs = 0;  // in the table of pointers to read from
    std::size_t first_output = 0, num_outputs = 0;
    std::size_t workspace = 0;  // offset
    std::string location;
  };
  // An operand of a call in the tables of pointers.
  struct Fixed {
    std::size_t pointer = 0, offset = 0;
  };
  struct Pointers {
    std::vector<std::vector<std::size_t>> of_argument;  // by argument: which of the pointers
    std::vector<Fixed> to_constants, to_scratch;
    std::size_t count = 0;
  };

  void add_constants(const MemoryPlan& plan, const Backend& backend);
  void add_pointer(Pointers& pointers, const BufferRef& place, const std::vector<BufferRef>& arguments);
  const void** inputs(std::byte* workspace) const { return reinterpret_cast<const void**>(workspace); }
  void** outputs(std::byte* workspace) const { return reinterpret_cast<void**>(workspace + outputs_at_); }

  std::vector<std::size_t> argument_bytes_;
  std::vector<Call> calls_;
  Pointers read_, written_;
  ArenaMemory constants_;
  std::size_t outputs_at_ = 0, scratch_at_ = 0, workspace_bytes_ = 0;  // the tables come first
};

}  // namespace aspen
