#include "poptorch/executor.h"

#include <fmt/format.h>

#include <mutex>
#include <random>

#include "aspen/base/log.h"
#include "poptorch/api/capture_context.h"
#include "poptorch/api/guarded.h"
#include "poptorch/model/ipus.h"
#include "poptorch/model/session.h"

namespace poptorch {
namespace {

aspen::OutputMode output_mode(OutputMode mode, bool training) {
  switch (mode) {
    case OutputMode::Final: return aspen::OutputMode::kFinal;
    case OutputMode::EveryN: return aspen::OutputMode::kEveryN;
    case OutputMode::All: return aspen::OutputMode::kAll;
    case OutputMode::Sum: return aspen::OutputMode::kSum;
    case OutputMode::Default: break;
  }
  return training ? aspen::OutputMode::kFinal : aspen::OutputMode::kAll;
}

aspen::Liveness liveness_of(const ExecutionStrategy& strategy) {
  switch (strategy.liveness()) {
    case Liveness::AlwaysLive: return aspen::Liveness::kAlwaysLive;
    case Liveness::OffChipAfterFwd:
    case Liveness::OffChipAfterFwdNoOverlap: return aspen::Liveness::kOffDeviceAfterForward;
    case Liveness::OffChipAfterEachPhase: break;
  }
  return aspen::Liveness::kOffDeviceAfterEachPhase;
}

// What phases do not need is kept off the device between them.
void set_execution(const ExecutionStrategy& strategy, aspen::CompileOptions& options) {
  if (!strategy.isPhased()) {
    const bool is_pipeline = strategy.kind() == ExecutionStrategy::Kind::Pipelined;
    options.execution = is_pipeline ? aspen::Execution::kPipelined : aspen::Execution::kSharded;
    return;
  }
  options.execution = aspen::Execution::kPhased;
  options.liveness = liveness_of(strategy);
  options.separate_backward_phase = strategy.separateBackwardPhase();
  options.locations.weights.off_device = true;
  options.locations.optimizer_state.off_device = true;
  options.locations.accumulators.off_device = true;
  options.locations.activations.off_device = options.liveness != aspen::Liveness::kAlwaysLive;
}

// One micro-batch of what a call is given.
std::vector<at::Tensor> first_micro_batch(const std::vector<at::Tensor>& inputs, std::int64_t count) {
  std::vector<at::Tensor> batches;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& input = inputs[i];
    if (count == 1) {
      batches.push_back(input);
    } else if (input.dim() == 0 || input.size(0) % count != 0) {
      throw Error(
          fmt::format("[run] input {} has {} rows; expected a multiple of {} (deviceIterations x "
                      "gradientAccumulation x replicationFactor).",
                      i, input.dim() == 0 ? 0 : input.size(0), count));
    } else {
      batches.push_back(input.narrow(0, 0, input.size(0) / count));
    }
  }
  return batches;
}

// A model is compiled for the arguments of its first call, tensors apart.
void check_alike(const FlatValue& before, const FlatValue& now) {
  const auto refuse = [](const std::string& place, const std::string& what) {
    throw Error(
        fmt::format("[model call] argument \"{}\" {}. A model is compiled for the arguments of its first call; call "
                    "destroy() or wrap the model again to use others.",
                    place, what));
  };
  for (std::size_t i = 0; i < std::min(before.facts.size(), now.facts.size()); ++i) {
    const FlatValue::Fact &was = before.facts[i], &is = now.facts[i];
    if (was.value != is.value || was.place != is.place) {
      refuse(is.place, fmt::format("was {} when the model was compiled and is {} now", was.value, is.value));
    }
  }
}

}  // namespace

namespace detail {

std::string text_of(double number) { return fmt::format("{}", number); }

}  // namespace detail

struct Executor::State {
  std::recursive_mutex turn;  // calls from several threads wait for it
  bool training = false;
  ModelState tensors;
  Options options;
  std::shared_ptr<DeviceOptimizer> optimizer;  // nullptr for inference
  std::unique_ptr<Session> session;
  // Of the compiled model: what it was called with, and what forward returned.
  FlatValue arguments;
  const std::type_info* types = nullptr;
  std::vector<ModelOutput> outputs;
  std::any results;
  std::chrono::duration<double> compilation_time{};

  std::int64_t gradient_accumulation() const { return training ? options.Training.gradientAccumulation() : 1; }
  std::int64_t micro_batches() const {
    return options.deviceIterations() * gradient_accumulation() * options.replicationFactor();
  }
  CompileSettings compile_settings(const std::shared_ptr<Model>& captured) const;
  void compile(const Call& call);
  void check(const Call& call) const;
};

CompileSettings Executor::State::compile_settings(const std::shared_ptr<Model>& captured) const {
  CompileSettings made;
  made.options.gradient_accumulation = gradient_accumulation();
  made.options.device_iterations = options.deviceIterations();
  made.options.mean_reduction = options.Training.accumulationAndReplicationReductionType() == ReductionType::Mean;
  set_execution(options.executionStrategy(), made.options);
  made.options.replicas = static_cast<std::size_t>(options.replicationFactor());
  if (training) {
    OptimizerProgram program = optimizer->compiled(captured);
    made.options.optimizer = std::move(program.spec);
    made.settings = std::move(program.settings);
    made.options.running_mean = optimizer->needs_running_mean();
  }
  made.seed = options.randomSeed().value_or(std::random_device()());
  made.backend = options.backend();
  return made;
}

// Of a call that is to be compiled, or that must be as the one that was.
void Executor::State::check(const Call& call) const {
  for (std::size_t i = 0; i < call.arguments.tensors.size(); ++i) {
    if (!call.arguments.tensors[i].defined()) {
      throw Error(fmt::format("[model call] argument \"{}\" is an undefined tensor.", call.arguments.places[i]));
    }
  }
  if (!session->is_compiled()) {
    if (call.forward) return;
    throw Error(
        "[run] the tensors of a list are the arguments of a forward that is not overloaded and takes tensors only; "
        "call the executor itself, with the arguments of forward.");
  }
  if (call.types == nullptr) return;
  if (*call.types != *types) {
    throw Error(
        "[model call] the arguments have other types than those the model was compiled for; call destroy() or wrap the "
        "model again to use others.");
  }
  check_alike(arguments, call.arguments);
}

void Executor::State::compile(const Call& call) {
  check(call);
  const auto begin = std::chrono::steady_clock::now();
  auto model = std::make_shared<Model>(training);
  for (const auto& [name, tensor] : tensors.parameters) model->add_tensor(name, tensor, true);
  for (const auto& [name, tensor] : tensors.buffers) model->add_tensor(name, tensor, false);
  std::vector<std::string> names;
  for (const std::string& place : call.arguments.places) names.push_back("input" + place);
  const auto forward = [&](const Tensors& traced) { return call.forward(traced, results).tensors; };
  OutputMode mode = options.outputMode();
  if (mode == OutputMode::Default) mode = training ? OutputMode::Final : OutputMode::All;
  const CaptureContext context({.strategy = options.executionStrategy(), .output_mode = mode});
  outputs = model->capture(forward, first_micro_batch(call.arguments.tensors, micro_batches()), names);
  IpuRequest ipus;
  ipus.used = {context.ipus().begin(), context.ipus().end()};
  ipus.replicas = options.replicationFactor();
  ipus.rounds_up = options.autoRoundNumIPUs();
  required_ipus(ipus);
  model->compile(compile_settings(model));
  const OutputRequest request{output_mode(options.outputMode(), training), options.outputReturnPeriod()};
  session->adopt(std::move(model), {options.deviceIterations(), gradient_accumulation(), request});
  arguments = call.arguments;
  arguments.tensors.clear();  // not to be kept alive
  types = call.types;
  session->attach();
  compilation_time = std::chrono::steady_clock::now() - begin;
}

namespace {

template <class State, class F>
auto in_turn(State& state, F&& f) {
  const std::scoped_lock turn(state.turn);
  return guarded(std::forward<F>(f));
}

// Turns of the executor for others that ask for its weights.
template <class State>
HostWeights::Turn turn_of(const std::shared_ptr<State>& state) {
  return [weak = std::weak_ptr(state)](const std::function<bool()>& body) {
    const auto alive = weak.lock();
    if (alive == nullptr) return false;
    const std::scoped_lock turn(alive->turn);
    return body();
  };
}

}  // namespace

Executor::Executor(bool training, ModelState tensors, const Options& options, const optim::Optimizer* optimizer)
    : state_(std::make_shared<State>()) {
  state_->training = training;
  state_->options = options;
  if (training) {
    state_->optimizer = std::make_shared<DeviceOptimizer>(turn_of(state_));
    state_->optimizer->replace(described(*optimizer));
  }
  std::vector<at::Tensor> all;
  for (const auto* part : {&tensors.parameters, &tensors.buffers}) {
    for (const auto& [name, tensor] : *part) all.push_back(tensor);
  }
  state_->tensors = std::move(tensors);
  State* state = state_.get();  // the session is its own
  state_->session = std::make_unique<Session>(
      training, std::move(all), turn_of(state_), [state] { state->session->copy_weights_to_host(); },
      state_->optimizer);
}

Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;
Executor::~Executor() = default;

void Executor::check_count(std::size_t expected, std::size_t given) {
  if (expected != given) {
    throw Error(fmt::format("[run] forward takes {} inputs, but {} were given.", expected, given));
  }
}

void Executor::compile(const Call& call) {
  in_turn(*state_, [&] {
    if (isCompiled()) throw Error("[compile] the model is compiled already; call destroy() first.");
    state_->compile(call);
  });
}

Executor::Tensors Executor::run(const Call& call, std::any& results) {
  return in_turn(*state_, [&] {
    State& state = *state_;
    if (isCompiled()) {
      state.check(call);
    } else {
      state.compile(call);
    }
    if (!state.session->is_attached()) state.session->attach();
    const Tensors computed = state.session->run(call.arguments.tensors, nullptr);
    results = state.results;
    Tensors returned;
    for (const ModelOutput& output : state.outputs) {
      returned.push_back(output.in_graph ? computed[output.index] : output.host);
    }
    return returned;
  });
}

bool Executor::isCompiled() const { return state_->session->is_compiled(); }

std::chrono::duration<double> Executor::compilationTime() const {
  return in_turn(*state_, [&] {
    state_->session->compiled("compilationTime");
    return state_->compilation_time;
  });
}

void Executor::copyWeightsToHost() {
  in_turn(*state_, [&] { state_->session->copy_weights_to_host(); });
}

bool Executor::copyWeightsToHostIfNeeded() {
  return in_turn(*state_, [&] { return state_->session->copy_weights_to_host_if_needed(); });
}

void Executor::copyWeightsToDevice() {
  in_turn(*state_, [&] { state_->session->copy_weights_to_device(); });
}

void Executor::detachFromDevice() {
  in_turn(*state_, [&] { state_->session->detach(); });
}

void Executor::attachToDevice() {
  in_turn(*state_, [&] { state_->session->attach(); });
}

bool Executor::isAttachedToDevice() const { return state_->session->is_attached(); }

void Executor::destroy() {
  in_turn(*state_, [&] {
    state_->session->destroy();
    state_->results.reset();
    state_->outputs.clear();
  });
}

void Executor::setOptimizer(const optim::Optimizer& optimizer) {
  in_turn(*state_, [&] {
    if (!state_->training) {
      throw Error("[setOptimizer] the model was wrapped by inferenceModel, which does not train.");
    }
    if (isCompiled()) {
      state_->optimizer->change(described(optimizer));
    } else {
      state_->optimizer->replace(described(optimizer));
    }
  });
}

Executor::RandomState Executor::randomState() const {
  return in_turn(*state_, [&] {
    const auto [seed, step] = state_->session->compiled("randomState").random_state();
    return RandomState{seed, step};
  });
}

void Executor::setRandomState(const RandomState& random) {
  in_turn(*state_, [&] { state_->session->compiled("setRandomState").set_random_state(random.seed, random.step); });
}

const Options& Executor::options() const { return state_->options; }

std::vector<std::string> Executor::getTensorNames() const {
  return in_turn(*state_, [&] { return state_->session->compiled("getTensorNames").tensor_names(); });
}

std::string Executor::graphText() const {
  return in_turn(*state_, [&] { return state_->session->compiled("graphText").graph_text(); });
}

}  // namespace poptorch
