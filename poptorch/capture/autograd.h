// Torch's autograd while a model is captured. Torch itself records nothing then: our compiler differentiates the graph.
// But a model may bring gradients of its own: functions with a backward pass (torch.autograd.Function in Python,
// torch::autograd::Function in C++) and hooks on tensors, parameters and modules. Those are torch's objects, and torch
// makes them by itself as soon as tensors of the model say that they require gradients and have a grad_fn. So they do
// (VariableHooks, the Autograd of a Recorder), and what torch attaches to them is found and taken into the graph:
// a function as op `custom_gradient`, hooks as op `gradient_hook`, both run once, on traced gradients, when the graph
// is differentiated.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace poptorch {

class Recorder;
class TracedImpl;

// Answers requires_grad for a traced tensor.
std::unique_ptr<c10::AutogradMetaInterface> make_traced_autograd_meta(TracedImpl& impl);

// Lets torch ask us about traced tensors: their grad_fn, is_leaf, and what `tensor.data = ...` means. Once per process.
void install_variable_hooks();

// The part of a Recorder that knows gradients of the user's own.
class Autograd {
 public:
  using Node = torch::autograd::Node;

  explicit Autograd(Recorder& recorder);

  // The tensor is the result of a function with its own backward pass that has not been taken in yet.
  bool is_new_result(const at::Tensor& tensor) const;
  // Takes in that function, with all its results.
  void take_in(const at::Tensor& result);

  // Makes the tensor a leaf that requires a gradient.
  void begin_paths_at(const TracedImpl& impl);

  // What torch is to see as the tensor's grad_fn; nullptr for a tensor that no trainable parameter reaches.
  const std::shared_ptr<Node>& grad_fn(const at::TensorBase& tensor);
  // Its place among the results of that.
  std::int64_t output_nr(const at::TensorBase& tensor);

  // Whether somebody has put a hook on one of these values.
  bool has_hooks(const std::function<bool(const aspen::Value*)>& is_meant) const;
  // After forward: hooks on parameters and on tensors of the model become ops of the graph.
  void take_in_hooks(const std::vector<std::pair<at::Tensor, aspen::Value*>>& parameters);

 private:
  // A function that was taken in: by the number of a result, its value.
  using Results = std::unordered_map<std::uint32_t, aspen::Value*>;

  aspen::Value* value_at(const torch::autograd::Edge& edge, const Node& function);

  Recorder& recorder_;
  std::uint64_t first_sequence_nr_;  // nodes with a smaller one are older than this capture
  std::unordered_map<const Node*, Results> functions_;
  std::unordered_set<const aspen::Value*> leaves_;
  std::vector<std::shared_ptr<Node>> kept_;                                  // functions_ are known by their address
  std::unordered_map<const aspen::Value*, std::shared_ptr<Node>> grad_fns_;  // of values torch has asked about
  std::vector<std::pair<aspen::Value*, c10::ScalarType>> asked_;             // the same, in order
};

}  // namespace poptorch
