#include "poptorch/executor.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "aspen/base/log.h"
#include "poptorch/api/batching.h"
#include "poptorch/api/call_inputs.h"
#include "poptorch/api/capture_context.h"
#include "poptorch/api/compile_settings.h"
#include "poptorch/api/footprint.h"
#include "poptorch/api/guarded.h"
#include "poptorch/api/perf_counters.h"
#include "poptorch/api/saved_model.h"
#include "poptorch/api/stage_blocks.h"
#include "poptorch/model/session.h"
#include "poptorch/model/trace_channel.h"
#include "poptorch/profiling.h"

namespace poptorch {
namespace {

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

using Groupings = std::map<std::string, aspen::ReplicaGrouping>;  // by parameter

struct Executor::State {
  std::recursive_mutex turn;  // calls from several threads wait for it
  bool training = false;
  ModelState tensors;
  Options options;
  Groupings groupings;
  std::shared_ptr<DeviceOptimizer> optimizer;  // nullptr for inference
  std::unique_ptr<Session> session;
  // Of the compiled model: what it was called with, and what forward returned.
  FlatValue arguments;
  const std::type_info* types = nullptr;
  std::unique_ptr<CallInputs> inputs;
  std::vector<ModelOutput> outputs;
  std::any results;
  std::chrono::duration<double> compilation_time{};

  // A program in a file, in place of one that is compiled.
  struct File {
    std::string path;
    const char* who = "";
    aspen::Sections sections;
    FileContents contents = FileContents::kProgram;
  };
  // file: nullptr if the program is to be compiled.
  void compile(const Call& call, const File* file = nullptr);
  void compile_reserved(const Call& call, const File* file);
  void check(const Call& call) const;
  void write(const std::string& path, const char* who, bool with_random_state);
};

namespace {

// While it lives grouped parameters have one of their values: what forward sees in every replica.
class SingleValues {
 public:
  SingleValues(const ModelState& tensors, const Groupings& groupings) {
    for (const auto& [name, tensor] : tensors.parameters) {
      if (!groupings.contains(name)) continue;
      whole_.emplace_back(tensor, tensor.detach());
      tensor.set_data(whole_.back().second[0].clone());
    }
  }
  ~SingleValues() {
    for (const auto& [parameter, values] : whole_) parameter.set_data(values);
  }
  SingleValues(const SingleValues&) = delete;
  SingleValues& operator=(const SingleValues&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> whole_;
};

}  // namespace

// Of a call that is to be compiled, or that must be as the one that was.
void Executor::State::check(const Call& call) const {
  if (!session->is_compiled()) {
    if (call.forward) return;
    throw Error(
        "[run] the tensors of a list are the arguments of a forward that is not overloaded and takes tensors only; "
        "call the executor itself, with the arguments of forward.");
  }
  if (call.types != nullptr) {
    if (*call.types != *types) {
      throw Error(
          "[model call] the arguments have other types than those the model was compiled for; call destroy() or wrap "
          "the model again to use others.");
    }
    check_alike(arguments, call.arguments);
  }
  inputs->check(call.arguments.tensors);
}

// A device that has an id is taken first: to wait for it after a long compilation would be in vain.
void Executor::State::compile(const Call& call, const File* file) {
  check(call);
  const auto begin = std::chrono::steady_clock::now();
  check_options(options.store());
  if (attaches_when_compiled(options.store())) session->reserve(device_to_take(options.store()), nullptr);
  try {
    compile_reserved(call, file);
  } catch (...) {
    session->release_device();
    throw;
  }
  compilation_time = std::chrono::steady_clock::now() - begin;
}

void Executor::State::compile_reserved(const Call& call, const File* file) {
  auto given = std::make_unique<CallInputs>(call.arguments.places, call.arguments.tensors);
  const MicroBatches batches = micro_batches(options.store(), training);
  auto model = std::make_shared<Model>(training);
  const auto replicas = static_cast<std::size_t>(options.replicationFactor());
  for (const auto& [name, tensor] : tensors.parameters) {
    if (const auto grouped = groupings.find(name); grouped != groupings.end()) {
      model->add_grouped_parameter(name, tensor, tensor, grouped->second, replicas);
    } else {
      model->add_tensor(name, tensor, true);
    }
  }
  std::vector<std::string> buffers;
  for (const auto& [name, tensor] : tensors.buffers) {
    model->add_tensor(name, tensor, false);
    buffers.push_back(name);
  }
  check_updatable_buffers(options.store(), buffers);
  std::vector<std::string> names;
  std::vector<at::Tensor> examples;
  for (std::size_t i = 0; i < call.arguments.places.size(); ++i) {
    names.push_back("input" + call.arguments.places[i]);
    examples.push_back(first_micro_batch(names.back(), call.arguments.tensors[i], batches));
  }
  std::optional<SingleValues> single(std::in_place, tensors, groupings);
  const auto forward = [&](const Tensors& traced) { return call.forward(traced, results).tensors; };
  const CaptureContext context(capture_rules(options.store(), options.executionStrategy(), training), *model);
  outputs = model->capture(forward, examples, names);
  context.check_overlap();
  const std::set<std::int64_t> ipus(context.ipus().begin(), context.ipus().end());
  required_ipus(ipu_request(options.store(), ipus));
  check_written_buffers(options.store(), model->written_buffers(), tensors.statistics);
  CompileSettings told = compile_settings(options.store(), options.executionStrategy(), training, ipus);
  if (training) {
    add_optimizer(told, optimizer->compiled(model));
    if (optimizer->needs_running_mean()) told.options.running_mean = true;
  }
  if (file == nullptr) {
    model->compile(told);
    log_stage_blocks(*model);
  } else {
    using_model_file(file->path, file->who, [&] { model->load(file->sections, told, file->contents); });
  }
  single.reset();
  session->adopt(std::move(model), call_of(options.store(), training));
  if (file != nullptr && file->contents == FileContents::kAll) session->take_weights_of_file();
  arguments = call.arguments;
  arguments.tensors.clear();  // not to be kept alive
  types = call.types;
  inputs = std::move(given);
  inputs->check(call.arguments.tensors);
  if (attaches_when_compiled(options.store())) session->attach();
}

void Executor::State::write(const std::string& path, const char* who, bool with_random_state) {
  aspen::Sections sections;
  const std::string file = export_path(path, who);
  session->save(sections, with_random_state);
  write_model_file(sections, file, who);
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
  if (!training) {
    check_inference(options.store(), options.executionStrategy());
  }
  state_->training = training;
  state_->options = options;
  if (training) {
    state_->optimizer =
        std::make_shared<DeviceOptimizer>(turn_of(state_), false, scales_loss_automatically(options.store()));
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

void Executor::save(const std::string& file, bool save_rng_state) {
  in_turn(*state_, [&] {
    state_->session->compiled("save");
    state_->write(file, "save", save_rng_state);
  });
}

void Executor::compileAndExport(const std::string& file, const Call& call) {
  in_turn(*state_, [&] {
    const profiling::Tracepoint point(trace_channel(state_->training), "compileAndExport");
    if (!isCompiled()) state_->compile(call);
    state_->write(file, "compileAndExport", true);
  });
}

void Executor::load(const std::string& file, const Call& call, bool with_state) {
  in_turn(*state_, [&] {
    const char* who = with_state ? "load" : "loadExecutable";
    if (isCompiled()) throw Error(fmt::format("[{}] the model is compiled already; call destroy() first.", who));
    const State::File read{file, who, read_model_file(file, who),
                           with_state ? FileContents::kAll : FileContents::kProgram};
    state_->compile(call, &read);
  });
}

Executor::Tensors Executor::example_tensors(const std::string& file) const {
  return in_turn(*state_, [&] {
    const char* who = "loadExecutable";
    const aspen::Sections sections = read_model_file(file, who);
    const std::int64_t count = micro_batches(state_->options.store(), state_->training).count;
    Tensors tensors;
    const auto examples = using_model_file(file, who, [&] { return Model::example_inputs(sections); });
    for (const ExampleInput& example : examples)
      tensors.push_back(at::zeros(stacked(example.shape, count), example.type));
    return tensors;
  });
}

Executor::Tensors Executor::run(const Call& call, std::any& results) {
  return in_turn(*state_, [&] {
    State& state = *state_;
    check_may_attach(state.options.store());
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

void Executor::copyNamedBuffersToDevice() {
  in_turn(*state_, [&] { state_->session->copy_buffers_to_device(state_->options.updatableNamedBuffers()); });
}

void Executor::replicaGrouping(const std::string& parameter, CommGroupType type, std::int64_t shards,
                               VariableRetrievalMode mode) {
  in_turn(*state_, [&] {
    const auto& all = state_->tensors.parameters;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& entry) { return entry.first == parameter; });
    if (found == all.end()) {
      throw Error(fmt::format("[replicaGrouping] the module has no parameter \"{}\".", parameter));
    }
    check_may_group(parameter, found->second, isCompiled());
    state_->groupings.erase(parameter);
    if (type == CommGroupType::All) return;
    state_->groupings[parameter] = {static_cast<aspen::ReplicaGrouping::Kind>(type), static_cast<std::size_t>(shards),
                                    mode == VariableRetrievalMode::AllReplicas};
  });
}

void Executor::detachFromDevice() {
  in_turn(*state_, [&] { state_->session->detach(); });
}

void Executor::attachToDevice() {
  in_turn(*state_, [&] {
    check_may_attach(state_->options.store());
    state_->session->attach();
  });
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

PerfCounters Executor::getPerfCounters() const {
  return in_turn(*state_, [&] { return perf_counters(*state_->session); });
}

Latency Executor::getLatency() const {
  return in_turn(*state_, [&] { return latency(*state_->session, LatencyOf::kCall); });
}

Latency Executor::getHostIpuLatency() const {
  return in_turn(*state_, [&] { return latency(*state_->session, LatencyOf::kHostToIpu); });
}

Latency Executor::getComputeLatency() const {
  return in_turn(*state_, [&] { return latency(*state_->session, LatencyOf::kCompute); });
}

Latency Executor::getIpuHostLatency() const {
  return in_turn(*state_, [&] { return latency(*state_->session, LatencyOf::kIpuToHost); });
}

std::int64_t Executor::cycleCount() const {
  return in_turn(*state_, [&] { return cycle_count(*state_->session, state_->options.store()); });
}

std::string Executor::stageBlocks() const {
  return in_turn(*state_, [&] { return stage_blocks(state_->session->compiled("stageBlocks")); });
}

std::vector<MemoryFootprint> Executor::memoryFootprint() const {
  return in_turn(*state_, [&] { return memory_footprint(*state_->session); });
}

const Options& Executor::options() const { return state_->options; }

std::vector<std::string> Executor::getTensorNames() const {
  return in_turn(*state_, [&] { return state_->session->tensor_names(); });
}

at::Tensor Executor::getAnchoredTensor(const std::string& short_name) const {
  return in_turn(*state_, [&] {
    check_is_anchored(state_->options.store(), short_name);
    return state_->session->anchored(short_name);
  });
}

std::string Executor::graphText() const {
  return in_turn(*state_, [&] { return state_->session->compiled("graphText").graph_text(); });
}

}  // namespace poptorch
