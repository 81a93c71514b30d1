#include "poptorch/executor.h"

#include <fmt/format.h>

#include <mutex>
#include <random>

#include "aspen/base/log.h"
#include "poptorch/api/guarded.h"
#include "poptorch/api/placer.h"
#include "poptorch/model/ipus.h"
#include "poptorch/model/model.h"

namespace poptorch {
namespace {

std::vector<float> settings_of(const optim::Optimizer& optimizer, const optim::Optimizer::Group& group) {
  std::vector<float> settings(aspen::kNumSettings, 0);
  settings[aspen::kLearningRate] = static_cast<float>(group.lr);
  settings[aspen::kWeightDecay] = static_cast<float>(group.weight_decay);
  settings[aspen::kMomentum] = static_cast<float>(group.first);
  settings[aspen::kDampening] = static_cast<float>(group.second);
  settings[aspen::kEpsilon] = static_cast<float>(group.epsilon);
  settings[aspen::kLossScaling] = static_cast<float>(optimizer.lossScaling());
  return settings;
}

std::string name_of(const at::Tensor& tensor, const ModelFunction& function) {
  for (const auto& [name, parameter] : function.parameters) {
    if (parameter.is_same(tensor)) return name;
  }
  return "";
}

aspen::OptimizerSpec optimizer_spec(const optim::Optimizer& optimizer, const ModelFunction& function) {
  aspen::OptimizerSpec spec;
  spec.kind = optimizer.kind();
  spec.bias_correction = optimizer.biasCorrection();
  spec.max_grad_norm = optimizer.maxGradNorm();
  spec.scales_loss = optimizer.lossScaling() != 1;
  for (const optim::Optimizer::Group& group : optimizer.groups()) {
    auto& made = spec.groups.emplace_back();
    made.momentum = group.keeps_velocity;
    made.nesterov = group.nesterov;
    for (const at::Tensor& parameter : group.parameters) {
      std::string name = name_of(parameter, function);
      if (name.empty()) throw Error("[trainingModel] a parameter of the optimiser does not belong to the module.");
      if (parameter.requires_grad()) made.parameters.push_back(std::move(name));
    }
  }
  return spec;
}

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

// What of an optimiser is part of the program differs: a text, empty if nothing does.
std::string fixed_difference(const aspen::OptimizerSpec& before, const aspen::OptimizerSpec& after) {
  if (before.kind != after.kind) return fmt::format("the kind changed from {} to {}", before.kind, after.kind);
  if (before.max_grad_norm != after.max_grad_norm) {
    return fmt::format("max_grad_norm changed from {} to {}", before.max_grad_norm, after.max_grad_norm);
  }
  if (before.bias_correction != after.bias_correction) {
    return fmt::format("bias_correction changed from {} to {}", before.bias_correction, after.bias_correction);
  }
  if (before.groups.size() != after.groups.size()) {
    return fmt::format("there were {} groups and now are {}", before.groups.size(), after.groups.size());
  }
  for (std::size_t i = 0; i < before.groups.size(); ++i) {
    const auto &a = before.groups[i], &b = after.groups[i];
    if (a.parameters != b.parameters) return fmt::format("the parameters of group {} changed", i);
    if (a.momentum != b.momentum) return fmt::format("momentum of group {} changed between zero and not zero", i);
    if (a.nesterov != b.nesterov) return fmt::format("nesterov of group {} changed", i);
  }
  return "";
}

template <class F>
auto in_turn(std::recursive_mutex& mutex, F&& f) {
  const std::scoped_lock turn(mutex);
  return guarded(std::forward<F>(f));
}

}  // namespace

struct Executor::State {
  std::recursive_mutex turn;  // calls from several threads wait for it
  bool training = false;
  ModelFunction function;
  Options options;
  aspen::OptimizerSpec optimizer;
  std::vector<std::vector<float>> settings;
  std::unique_ptr<Model> model;  // nullptr until compiled
  std::vector<ModelOutput> outputs;
  bool trained = false;  // since the weights were copied to or from the host

  ~State() { leave_behind(); }
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::int64_t gradient_accumulation() const { return training ? options.Training.gradientAccumulation() : 1; }
  std::int64_t micro_batches() const {
    return options.deviceIterations() * gradient_accumulation() * options.replicationFactor();
  }
  CompileSettings compile_settings() const;
  void compile(const std::vector<at::Tensor>& inputs);
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs);
  Model& compiled(const char* who) const;
  void check_inputs(const std::vector<at::Tensor>& inputs) const;
  void save_to_host();
  void leave_behind() noexcept;
};

// What only the device knows, to the tensors of the module.
void Executor::State::save_to_host() {
  if (trained) model->download_weights();
  trained = false;
  model->download_written();
}

void Executor::State::leave_behind() noexcept {
  if (model == nullptr) return;
  try {
    save_to_host();
  } catch (const std::exception& error) {
    aspen::log::error("the weights could not be copied to the module when its executor went: {}", error.what());
  }
}

void Executor::State::check_inputs(const std::vector<at::Tensor>& inputs) const {
  const std::optional<std::size_t> expected = function.num_inputs;
  if (expected && *expected != inputs.size()) {
    throw Error(fmt::format("[run] forward takes {} inputs, but {} were given.", *expected, inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) throw Error(fmt::format("[run] input {} is an undefined tensor.", i));
  }
}

Model& Executor::State::compiled(const char* who) const {
  if (model == nullptr) throw Error(fmt::format("[{}] the model is not compiled yet; run it once first.", who));
  return *model;
}

void Executor::State::compile(const std::vector<at::Tensor>& inputs) {
  check_inputs(inputs);
  auto made = std::make_unique<Model>(training);
  for (const auto& [name, tensor] : function.parameters) made->add_tensor(name, tensor, true);
  for (const auto& [name, tensor] : function.buffers) made->add_tensor(name, tensor, false);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs.size(); ++i) names.push_back(fmt::format("input{}", i));
  {
    Placer placer(options.executionStrategy());
    outputs = made->capture(function.forward, first_micro_batch(inputs, micro_batches()), names);
  }
  IpuRequest ipus;
  ipus.used = made->devices();
  ipus.replicas = options.replicationFactor();
  ipus.rounds_up = options.autoRoundNumIPUs();
  required_ipus(ipus);
  made->compile(compile_settings());
  made->attach();
  made->upload_weights();
  model = std::move(made);
}

CompileSettings Executor::State::compile_settings() const {
  CompileSettings made;
  made.options.gradient_accumulation = gradient_accumulation();
  made.options.device_iterations = options.deviceIterations();
  made.options.mean_reduction = options.Training.accumulationAndReplicationReductionType() == ReductionType::Mean;
  made.options.execution = options.executionStrategy().kind() == ExecutionStrategy::Kind::Pipelined
                               ? aspen::Execution::kPipelined
                               : aspen::Execution::kSharded;
  made.options.replicas = static_cast<std::size_t>(options.replicationFactor());
  made.options.optimizer = optimizer;
  made.seed = options.randomSeed().value_or(std::random_device()());
  made.backend = options.backend();
  made.settings = settings;
  return made;
}

std::vector<at::Tensor> Executor::State::run(const std::vector<at::Tensor>& inputs) {
  if (model == nullptr) compile(inputs);
  check_inputs(inputs);
  if (!model->is_attached()) model->attach();
  trained = training;  // also if the run fails: some updates may have been made
  const OutputRequest request{output_mode(options.outputMode(), training), options.outputReturnPeriod()};
  std::size_t in_graph = 0;
  for (const ModelOutput& output : outputs) in_graph += output.in_graph;
  const auto results = model->run(inputs, options.deviceIterations(), gradient_accumulation(),
                                  std::vector<OutputRequest>(in_graph, request), nullptr);
  std::vector<at::Tensor> returned;
  for (const ModelOutput& output : outputs) returned.push_back(output.in_graph ? results[output.index] : output.host);
  return returned;
}

Executor::Executor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;
Executor::~Executor() = default;

std::vector<at::Tensor> Executor::run(const std::vector<at::Tensor>& inputs) {
  return in_turn(state_->turn, [&] { return state_->run(inputs); });
}

void Executor::compile(const std::vector<at::Tensor>& inputs) {
  in_turn(state_->turn, [&] {
    if (isCompiled()) throw Error("[compile] the model is compiled already.");
    state_->compile(inputs);
  });
}

bool Executor::isCompiled() const { return state_->model != nullptr; }

void Executor::copyWeightsToHost() {
  in_turn(state_->turn, [&] {
    state_->compiled("copyWeightsToHost").download_weights();
    state_->trained = false;
  });
}

void Executor::copyWeightsToDevice() {
  in_turn(state_->turn, [&] {
    state_->compiled("copyWeightsToDevice").upload_weights();
    state_->trained = false;
  });
}

void Executor::detachFromDevice() {
  in_turn(state_->turn, [&] {
    Model& model = state_->compiled("detachFromDevice");
    if (model.is_attached()) state_->save_to_host();
    model.detach();
  });
}

void Executor::attachToDevice() {
  in_turn(state_->turn, [&] { state_->compiled("attachToDevice").attach(); });
}

bool Executor::isAttachedToDevice() const { return isCompiled() && state_->model->is_attached(); }

void Executor::setOptimizer(const optim::Optimizer& optimizer) {
  in_turn(state_->turn, [&] {
    if (!state_->training) {
      throw Error("[setOptimizer] the model was wrapped by inferenceModel, which does not train.");
    }
    const aspen::OptimizerSpec spec = optimizer_spec(optimizer, state_->function);
    const std::string difference = fixed_difference(state_->optimizer, spec);
    if (!difference.empty()) {
      throw Error(
          fmt::format("[setOptimizer] {}, which is fixed once the model is wrapped; wrap it anew.", difference));
    }
    if (spec.scales_loss && !state_->optimizer.scales_loss) {
      throw Error(
          fmt::format("[setOptimizer] the loss is to be scaled by {}, but the model was wrapped with a scaling of "
                      "1; wrap it with another one if it is to change.",
                      optimizer.lossScaling()));
    }
    for (std::size_t i = 0; i < spec.groups.size(); ++i) {
      state_->settings[i] = settings_of(optimizer, optimizer.groups()[i]);
      if (isCompiled()) state_->model->set_settings(i, state_->settings[i]);
    }
  });
}

std::string Executor::graphText() const { return state_->compiled("graphText").graph_text(); }

Executor makeTrainingExecutor(ModelFunction function, const Options& options, const optim::Optimizer& optimizer) {
  auto state = std::make_unique<Executor::State>();
  state->training = true;
  state->optimizer = optimizer_spec(optimizer, function);
  for (const auto& group : optimizer.groups()) state->settings.push_back(settings_of(optimizer, group));
  state->function = std::move(function);
  state->options = options;
  return Executor(std::move(state));
}

Executor makeInferenceExecutor(ModelFunction function, const Options& options) {
  auto state = std::make_unique<Executor::State>();
  state->function = std::move(function);
  state->options = options;
  return Executor(std::move(state));
}

}  // namespace poptorch
