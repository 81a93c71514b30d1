// PoplarExecutor: a wrapped model. Compiles it at its first call, then runs it; weights live on the device meanwhile.
#pragma once

#include <ATen/core/Tensor.h>

#include <any>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "poptorch/memory.h"
#include "poptorch/optim.h"
#include "poptorch/options.h"
#include "poptorch/perf_counters.h"
#include "poptorch/structure.h"

namespace poptorch {

// The tensors that are a model's state, by name.
struct ModelState {
  std::vector<std::pair<std::string, at::Tensor>> parameters, buffers;
  std::set<std::string> statistics;  // buffers of normalisations: each replica has its own, that of the first is read
};

// What an executor does whatever its model's forward looks like. Calls from several threads take turns. An inference
// executor follows the training executors that the module's tensors had when it was wrapped: its next call uses what
// they have learnt.
class Executor {
 public:
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;
  ~Executor();  // what the device has learnt goes back to the module's tensors

  bool isCompiled() const;
  // How long the last compilation took.
  std::chrono::duration<double> compilationTime() const;

  // After training the weights are on the device; this fills the module's own tensors.
  void copyWeightsToHost();
  // The same, unless nothing was trained since; returns whether anything was copied.
  bool copyWeightsToHostIfNeeded();
  // Takes over what the module's tensors hold now.
  void copyWeightsToDevice();
  // The same for the buffers that options.updatableNamedBuffers lists, and nothing else.
  void copyNamedBuffersToDevice();

  // Before the model is compiled: groups of `shards` replicas have their own values of the parameter, which holds those
  // of all groups (OnePerGroup) or replicas (AllReplicas) along an additional first axis that forward does not see.
  void replicaGrouping(const std::string& parameter, CommGroupType type, std::int64_t shards,
                       VariableRetrievalMode mode = VariableRetrievalMode::OnePerGroup);

  // Frees the device; weights that were trained and buffers that forward wrote are copied to the host first. The next
  // call continues where this ended. An Error if no device is attached. A device that options.useIpuId names is nobody
  // else's while attached: another executor that asks for it, in any process, gets an Error, after the seconds that
  // POPTORCH_WAIT_FOR_IPU says.
  void detachFromDevice();
  void attachToDevice();
  bool isAttachedToDevice() const;
  // Frees the program too, after the same copies. The next call compiles the model anew.
  void destroy();

  // Writes the compiled model to a file: the program, weights, state of the optimiser and, if that is wanted, of the
  // random ops. Missing folders are made; in a folder the file is model.poptorch. An Error if the model calls functions
  // that exist in this process alone. loadExecutable and load read it.
  void save(const std::string& file, bool save_rng_state = true);

  // Uses the current numbers of this optimiser from the next call on. Once the model is compiled constants and all that
  // is part of the program must stay as they were; before that any optimiser may take the place of the first.
  void setOptimizer(const optim::Optimizer& optimizer);

  // Where the random ops are: the seed, and how many steps were drawn from it. Of a compiled model.
  struct RandomState {
    std::uint64_t seed = 0, step = 0;
    bool operator==(const RandomState&) const = default;
  };
  RandomState randomState() const;
  void setRandomState(const RandomState& state);

  // When the inputs and outputs of the latest call were transferred.
  PerfCounters getPerfCounters() const;
  // From the first request of an input to the last output written, and its parts: the inputs' way to the device, until
  // the outputs are ready, the outputs' way back.
  Latency getLatency() const;
  Latency getHostIpuLatency() const;
  Latency getComputeLatency() const;
  Latency getIpuHostLatency() const;
  // Cycles of the latest call's first replica, with options.logCycleCount: those that a clock of 1.85 GHz makes in the
  // time that was measured without transfers.
  std::int64_t cycleCount() const;

  // Of a compiled model with AutoPipeline: its cut, as blocks to be written into the model, which then runs the same
  // with PipelinedExecution.
  std::string stageBlocks() const;
  // What the compiled model takes of each device's memory, as planned.
  std::vector<MemoryFootprint> memoryFootprint() const;

  const Options& options() const;
  // Of a compiled model: its inputs as "input...", parameters and buffers under their own names, results of ops under
  // the path of their module, and when training "loss", "Gradient___<parameter>", "UpdatedVar___<parameter>", the
  // optimiser's state and its numbers. Any of them can be given to options.anchorTensor.
  std::vector<std::string> getTensorNames() const;
  // What options.anchorTensor has named so, of the latest call: a copy of its own, in the shape of an output of its
  // mode.
  at::Tensor getAnchoredTensor(const std::string& short_name) const;
  // The compiled graph as text.
  std::string graphText() const;

 protected:
  using Tensors = std::vector<at::Tensor>;
  // A call to be compiled or run: its arguments, taken apart, and the model's forward for them.
  struct Call {
    FlatValue arguments;
    const std::type_info* types = nullptr;  // of the arguments; nullptr: a list of tensors for whatever was compiled
    std::function<FlatValue(const Tensors& traced, std::any& results)> forward;
  };

  Executor(bool training, ModelState state, const Options& options, const optim::Optimizer* optimizer);
  void compile(const Call& call);
  void compileAndExport(const std::string& file, const Call& call);
  // Takes the program of a file, for a call like the one it was compiled for. with_state: and all else that is in it.
  void load(const std::string& file, const Call& call, bool with_state);
  // Tensors like those of the call that the model in a file was compiled for.
  Tensors example_tensors(const std::string& file) const;
  // The tensors of the results; `results` becomes what forward left there when the model was compiled.
  Tensors run(const Call& call, std::any& results);
  static void check_count(std::size_t expected, std::size_t given);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

namespace detail {

// Forward of a module as it is called: const or not, overloaded or not.
template <class Module>
struct ModuleForward {
  std::shared_ptr<Module> module;
  template <class... Arguments>
  auto operator()(Arguments&... arguments) const -> decltype(module->forward(arguments...)) {
    return module->forward(arguments...);
  }
};

// The number of parameters of a function that is neither overloaded nor a template.
template <class F>
struct Arity;
template <class Owner, class Result, class... Parameters>
struct Arity<Result (Owner::*)(Parameters...)> : std::integral_constant<std::size_t, sizeof...(Parameters)> {};
template <class Owner, class Result, class... Parameters>
struct Arity<Result (Owner::*)(Parameters...) const> : std::integral_constant<std::size_t, sizeof...(Parameters)> {};

template <class Forward, class = void>
struct NumArguments {};  // unknown
template <class Forward>
struct NumArguments<Forward, std::void_t<decltype(&Forward::operator())>> : Arity<decltype(&Forward::operator())> {};
template <class Module>
struct NumArguments<ModuleForward<Module>, std::void_t<decltype(&Module::forward)>>
    : Arity<decltype(&Module::forward)> {};

template <std::size_t, class T>
using Repeated = T;
template <class T, class Indices>
struct RepeatedTuple;
template <class T, std::size_t... I>
struct RepeatedTuple<T, std::index_sequence<I...>> {
  using Type = std::tuple<Repeated<I, T>...>;
};

// Names of the buffers of torch's batch and instance normalisations.
template <class Module>
std::set<std::string> statistics_of(const Module& module) {
  std::set<std::string> names;
  for (const auto& child : module.named_modules()) {
    const std::string type = child.value()->name();
    if (type.rfind("torch::nn::BatchNorm", 0) != 0 && type.rfind("torch::nn::InstanceNorm", 0) != 0) continue;
    const std::string prefix = child.key().empty() ? "" : child.key() + ".";
    for (const auto& buffer : child.value()->named_buffers(false)) names.insert(prefix + buffer.key());
  }
  return names;
}

template <class Module>
ModelState state_of(const Module& module) {
  ModelState state;
  state.statistics = statistics_of(module);
  for (const auto& entry : module.named_parameters()) state.parameters.emplace_back(entry.key(), entry.value());
  for (const auto& entry : module.named_buffers()) state.buffers.emplace_back(entry.key(), entry.value());
  return state;
}

}  // namespace detail

// Made by trainingModel and inferenceModel; called like the forward it wraps.
template <class Module, class Forward = detail::ModuleForward<Module>>
class PoplarExecutor : public Executor {
 public:
  PoplarExecutor(bool training, std::shared_ptr<Module> module, Forward forward, const Options& options,
                 const optim::Optimizer* optimizer)
      : Executor(training, detail::state_of(*module), options, optimizer), module_(std::move(module)),
        forward_(std::move(forward)) {}

  // One call: deviceIterations * gradientAccumulation * replicationFactor micro-batches, one after the other along the
  // first axis of each tensor. Returns what forward returned, its tensors batched by the output mode, a block per
  // replica.
  template <class... Arguments>
  auto operator()(const Arguments&... arguments) {
    if constexpr (takes<Arguments...>) {
      return result_of(std::tuple<Arguments...>(arguments...));
    } else {
      static_assert(takes<Tensors> && (std::is_convertible_v<Arguments, at::Tensor> && ...),
                    "forward does not take these arguments");
      return result_of(std::tuple<Tensors>(Tensors{arguments...}));
    }
  }

  // The same for a list of the tensors that forward takes, such as an item of a DataLoader. Returns the tensors of the
  // results, one after the other.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& tensors) {
    std::any results;
    return Executor::run(list_call(tensors), results);
  }

  // Compiles for arguments like these, without running.
  template <class... Arguments>
  void compile(const Arguments&... arguments) {
    static_assert(takes<Arguments...>, "forward does not take these arguments");
    Executor::compile(call_of(std::tuple<Arguments...>(arguments...)));
  }
  void compileFor(const std::vector<at::Tensor>& tensors) { Executor::compile(list_call(tensors)); }

  // Compiles for arguments like these, and saves.
  template <class... Arguments>
  void compileAndExport(const std::string& file, const Arguments&... arguments) {
    static_assert(takes<Arguments...>, "forward does not take these arguments");
    Executor::compileAndExport(file, call_of(std::tuple<Arguments...>(arguments...)));
  }

  // Takes the program out of a file that was saved of the same model with the same options, instead of compiling the
  // model. Weights and optimiser are those of this executor. arguments: like those that the model is called with; a
  // forward that takes tensors only and is not overloaded needs none.
  template <class... Arguments>
  void loadExecutable(const std::string& file, const Arguments&... arguments) {
    Executor::load(file, saved_call(file, arguments...), false);
  }

  // The same with everything that is in the file: weights, which go to the module, too, state of the optimiser and of
  // the random ops. The executor continues where the one that was saved was.
  template <class... Arguments>
  void load(const std::string& file, const Arguments&... arguments) {
    Executor::load(file, saved_call(file, arguments...), true);
  }

  // The wrapped module.
  Module& model() const { return *module_; }

 private:
  template <class... Arguments>
  static constexpr bool takes = std::is_invocable_v<const Forward&, Arguments&...>;

  template <class... Arguments>
  auto result_of(const std::tuple<Arguments...>& arguments) {
    using Result = std::decay_t<std::invoke_result_t<const Forward&, Arguments&...>>;
    std::any results;
    const Tensors tensors = Executor::run(call_of(arguments), results);
    return detail::rebuilt(std::any_cast<Result>(std::move(results)), tensors);
  }

  template <class... Arguments>
  Call call_of(const std::tuple<Arguments...>& arguments) const {
    Call call{detail::flatten(arguments), &typeid(arguments), nullptr};
    call.forward = [this, arguments](const Tensors& traced, std::any& results) {
      auto given = detail::rebuilt(arguments, traced);
      auto returned = std::apply([this](auto&... items) { return forward_(items...); }, given);
      FlatValue flat = detail::flatten(returned);
      // Kept to be filled in at each call, without the tensors of the capture.
      results = detail::rebuilt(std::move(returned), Tensors(flat.tensors.size()));
      return flat;
    };
    return call;
  }

  template <class... Arguments>
  Call saved_call(const std::string& file, const Arguments&... arguments) const {
    if constexpr (sizeof...(Arguments) == 0) {
      return list_call(example_tensors(file));
    } else {
      static_assert(takes<Arguments...>, "forward does not take these arguments");
      return call_of(std::tuple<Arguments...>(arguments...));
    }
  }

  template <class... Arguments>
  static constexpr bool takes_all(const std::tuple<Arguments...>*) {
    return takes<Arguments...>;
  }

  Call list_call(const Tensors& tensors) const {
    using Count = detail::NumArguments<Forward>;
    if constexpr (takes<Tensors>) {
      return call_of(std::make_tuple(tensors));
    } else if constexpr (requires { Count::value; }) {
      using All = typename detail::RepeatedTuple<at::Tensor, std::make_index_sequence<Count::value>>::Type;
      if constexpr (takes_all(static_cast<All*>(nullptr))) {
        check_count(Count::value, tensors.size());
        return call_of(detail::rebuilt(All(), tensors));
      }
    }
    return Call{detail::flatten(tensors), nullptr, nullptr};  // for whatever the model was compiled for
  }

  std::shared_ptr<Module> module_;
  Forward forward_;
};

// A model that trains: forward must compute exactly one loss. Parameters of the module that require a gradient and
// are in the optimiser are updated once per device iteration.
template <class Module>
PoplarExecutor<Module> trainingModel(const std::shared_ptr<Module>& module, const Options& options,
                                     const optim::Optimizer& optimizer) {
  return {true, module, {module}, options, &optimizer};
}

// The same with a function in place of Module::forward, of its arguments or of the list of them. It uses the tensors of
// the module.
template <class Module, class Forward>
PoplarExecutor<Module, Forward> trainingModel(std::shared_ptr<Module> module, Forward forward, const Options& options,
                                              const optim::Optimizer& optimizer) {
  return {true, std::move(module), std::move(forward), options, &optimizer};
}

template <class Module>
PoplarExecutor<Module> inferenceModel(const std::shared_ptr<Module>& module, const Options& options = {}) {
  return {false, module, {module}, options, nullptr};
}

template <class Module, class Forward>
requires(!std::is_convertible_v<Forward, Options>) PoplarExecutor<Module, Forward> inferenceModel(
    std::shared_ptr<Module> module, Forward forward, const Options& options = {}) {
  return {false, std::move(module), std::move(forward), options, nullptr};
}

}  // namespace poptorch
