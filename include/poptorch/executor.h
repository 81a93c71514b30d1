// Executor: a wrapped model. Compiles it at its first call, then runs it; weights live on the device meanwhile.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "poptorch/optim.h"
#include "poptorch/options.h"

namespace poptorch {

// A model as the library sees it: tensors in, tensors out, and the tensors that are its state.
struct ModelFunction {
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> forward;
  std::optional<std::size_t> num_inputs;  // that forward takes; none: it takes any number
  std::vector<std::pair<std::string, at::Tensor>> parameters, buffers;
};

// Calls from several threads take turns.
class Executor {
 public:
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;
  ~Executor();  // what the device has learnt goes back to the module's tensors

  // One call: deviceIterations * gradientAccumulation * replicationFactor micro-batches, one after the other along the
  // first axis of each input. Returns what forward returned, batched by the output mode, a block per replica.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs);
  template <class... Tensors>
  std::vector<at::Tensor> operator()(const Tensors&... inputs) {
    return run(std::vector<at::Tensor>{inputs...});
  }

  // Compiles for inputs like these, without running.
  void compile(const std::vector<at::Tensor>& inputs);
  bool isCompiled() const;

  // After training the weights are on the device; this fills the module's own tensors.
  void copyWeightsToHost();
  // Takes over what the module's tensors hold now.
  void copyWeightsToDevice();
  // Frees the device; weights that were trained and buffers that forward wrote are copied to the host first. The next
  // run continues where this ended.
  void detachFromDevice();
  void attachToDevice();
  bool isAttachedToDevice() const;

  // New learning rates and other numbers of the groups; all else must stay as it was.
  void setOptimizer(const optim::Optimizer& optimizer);

  // The compiled graph as text.
  std::string graphText() const;

 private:
  friend Executor makeTrainingExecutor(ModelFunction, const Options&, const optim::Optimizer&);
  friend Executor makeInferenceExecutor(ModelFunction, const Options&);
  struct State;
  explicit Executor(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

Executor makeTrainingExecutor(ModelFunction function, const Options& options, const optim::Optimizer& optimizer);
Executor makeInferenceExecutor(ModelFunction function, const Options& options);

namespace detail {

inline void flatten(const at::Tensor& tensor, std::vector<at::Tensor>& into) { into.push_back(tensor); }
inline void flatten(const std::vector<at::Tensor>& tensors, std::vector<at::Tensor>& into) {
  into.insert(into.end(), tensors.begin(), tensors.end());
}
template <class First, class Second>
void flatten(const std::pair<First, Second>& results, std::vector<at::Tensor>& into) {
  flatten(results.first, into);
  flatten(results.second, into);
}
template <class... Results>
void flatten(const std::tuple<Results...>& results, std::vector<at::Tensor>& into) {
  std::apply([&](const auto&... result) { (flatten(result, into), ...); }, results);
}

template <class Module, class Result, class... Arguments, std::size_t... I>
std::vector<at::Tensor> call_forward(Module& module, Result (Module::*forward)(Arguments...),
                                     const std::vector<at::Tensor>& inputs, std::index_sequence<I...>) {
  std::vector<at::Tensor> flat;
  flatten((module.*forward)(inputs.at(I)...), flat);
  return flat;
}

// Module::forward takes tensors and returns a tensor, or a tuple, pair or vector of them.
template <class Module, class Result, class... Arguments>
void bind_forward(ModelFunction& function, std::shared_ptr<Module> module, Result (Module::*forward)(Arguments...)) {
  function.num_inputs = sizeof...(Arguments);
  function.forward = [module, forward](const std::vector<at::Tensor>& inputs) {
    return call_forward(*module, forward, inputs, std::index_sequence_for<Arguments...>());
  };
}

template <class Module>
ModelFunction state_of(Module& module) {
  ModelFunction function;
  for (const auto& entry : module.named_parameters()) function.parameters.emplace_back(entry.key(), entry.value());
  for (const auto& entry : module.named_buffers()) function.buffers.emplace_back(entry.key(), entry.value());
  return function;
}

template <class Module>
ModelFunction function_of(std::shared_ptr<Module> module) {
  ModelFunction function = state_of(*module);
  bind_forward(function, module, &Module::forward);
  return function;
}

}  // namespace detail

// A model that trains: forward must compute exactly one loss. Parameters of the module that require a gradient and
// are in the optimiser are updated once per device iteration.
template <class Module>
Executor trainingModel(std::shared_ptr<Module> module, const Options& options, const optim::Optimizer& optimizer) {
  return makeTrainingExecutor(detail::function_of(std::move(module)), options, optimizer);
}

// The same with a function in place of Module::forward: from a list of tensors to a list of tensors.
template <class Module, class Forward>
Executor trainingModel(std::shared_ptr<Module> module, Forward forward, const Options& options,
                       const optim::Optimizer& optimizer) {
  ModelFunction function = detail::state_of(*module);
  function.forward = std::move(forward);
  return makeTrainingExecutor(std::move(function), options, optimizer);
}

template <class Module>
Executor inferenceModel(std::shared_ptr<Module> module, const Options& options = {}) {
  return makeInferenceExecutor(detail::function_of(std::move(module)), options);
}

template <class Module, class Forward,
          class = std::enable_if_t<std::is_invocable_v<Forward, const std::vector<at::Tensor>&>>>
Executor inferenceModel(std::shared_ptr<Module> module, Forward forward, const Options& options = {}) {
  ModelFunction function = detail::state_of(*module);
  function.forward = std::move(forward);
  return makeInferenceExecutor(std::move(function), options);
}

}  // namespace poptorch
