// BoxedOp: an ATen op with its arguments fixed, except for the tensors that come from the graph. Behind every host
// call, forward and backward.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace poptorch {

// Float16 and bfloat16, in which torch computes little on the CPU.
inline bool is_narrow_float(c10::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

class BoxedOp {
 public:
  // is_input tells which tensors of the arguments vary; the others are copied. A tensor that appears twice is one
  // input.
  BoxedOp(const c10::OperatorHandle& op, const torch::jit::Stack& arguments,
          const std::function<bool(const at::Tensor&)>& is_input);

  const c10::OperatorHandle& op() const { return op_; }
  const std::vector<at::Tensor>& inputs() const { return inputs_; }    // as they were given
  const std::vector<at::Tensor>& written() const { return written_; }  // arguments the op writes, as they were given

  // From now on fixed arguments in half or bfloat16 are float32.
  void widen_constants();

  struct Results {
    torch::jit::Stack returned;
    std::vector<at::Tensor> written;  // the arguments in written(), with their new contents
    // Tensors that are news: those returned, except written arguments handed back, then the written ones.
    std::vector<at::Tensor> flat;
  };
  // Runs the op; leaves the tensors it is given as they are.
  Results call(const std::vector<at::Tensor>& inputs, c10::Device device) const;
  // The op by its name, with its fixed arguments, for programs on disk. None: an argument exists in this process alone.
  std::optional<std::vector<std::byte>> stored() const;
  // An aspen::FileError for what is no such thing, and for an op that no library here brings. What comes back can be
  // called; the tensors it was first given are gone.
  static BoxedOp restored(std::span<const std::byte> bytes);

  // What the op would have returned, with `flat` in place of the tensors of Results::flat.
  torch::jit::Stack repack(const Results& example, const std::vector<at::Tensor>& flat) const;

 private:
  struct Slot {
    enum Kind { kUndefined, kConstant, kInput } kind;
    std::size_t input = 0;
  };

  explicit BoxedOp(const c10::OperatorHandle& op) : op_(op) {}
  bool returns_argument(std::size_t result) const;

  c10::OperatorHandle op_;
  torch::jit::Stack arguments_;
  std::vector<Slot> slots_;  // one per tensor of arguments_, in order
  std::vector<at::Tensor> inputs_, written_;
  std::vector<bool> is_written_;             // per input
  std::vector<std::size_t> written_inputs_;  // of written_, their places among the inputs
};

}  // namespace poptorch
