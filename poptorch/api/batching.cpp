#include "poptorch/api/batching.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "aspen/base/log.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

constexpr std::int64_t kFinal = 0, kEveryN = 1, kAll = 2, kDefault = 4;  // of OutputMode
constexpr std::int64_t kAlways = 0, kNever = 2;                          // of ConnectionType

}  // namespace

MicroBatches micro_batches(const OptionStore& options, bool training) {
  const std::int64_t iterations = options.integer("device_iterations");
  const std::int64_t steps = training ? options.gradient_accumulation() : 1;
  const std::int64_t groups = options.input_groups();
  MicroBatches made;
  made.count = iterations * steps * groups;
  made.rule = fmt::format("{} device iterations x {} gradient accumulation steps", iterations, steps);
  if (options.integer("replication_factor") > 1) {
    made.rule +=
        fmt::format(" x {} {}", groups, options.integer("input_group_size") == 1 ? "replicas" : "groups of replicas");
  }
  return made;
}

at::Tensor first_micro_batch(const std::string& name, const at::Tensor& input, const MicroBatches& batches) {
  if (batches.count == 1) return input.detach();
  if (input.dim() == 0) {
    throw ArgumentError(
        fmt::format("Argument \"{}\" is a single number; every input must have a first dimension that is a multiple of "
                    "{}. Give each micro-batch its own value, e.g. with .expand({})",
                    name, batches.rule, batches.count));
  }
  if (input.size(0) % batches.count != 0) {
    throw ArgumentError(fmt::format(
        "Argument \"{}\" of shape [{}] does not divide into micro-batches: its first dimension {} must be a "
        "multiple of {}. {} makes batches of the right size",
        name, fmt::join(input.sizes(), ", "), input.size(0), batches.rule, spelled("poptorch::DataLoader")));
  }
  return input.detach().narrow(0, 0, input.size(0) / batches.count);
}

void resolve_output_mode(OptionStore& options, bool training) {
  if (options.integer("output_mode") == kDefault) options.put(kGeneral, "output_mode", training ? kFinal : kAll);
}

namespace {

OutputRequest output_request(std::int64_t mode, std::int64_t period, std::int64_t iterations, const std::string& what) {
  if (mode < kFinal || mode > kDefault) {
    throw Error(
        fmt::format("[compile] {} is no output mode{}; expected 0 Final, 1 EveryN, 2 All or 3 Sum.", mode, what));
  }
  if (mode == kEveryN && (period < 1 || iterations % period != 0)) {
    throw Error(
        fmt::format("[compile] the output period {} of {}{} does not divide the {} device iterations; choose a divisor "
                    "of deviceIterations.",
                    period, spelled("OutputMode::EveryN"), what, iterations));
  }
  return {static_cast<aspen::OutputMode>(mode), period};
}

// Those without a mode of their own have the model's.
std::vector<Session::Anchor> anchors_of(const OptionStore& options, const OutputRequest& standard, bool training) {
  std::vector<Session::Anchor> anchors;
  for (const auto& [key, value] : *options.get(kGeneral, "anchored_tensors").as<OptionDict>()) {
    const auto& name = std::get<std::string>(key);
    const OptionList& entry = *value.as<OptionList>();  // tensor, mode, period
    Session::Anchor anchor{name, *entry[0].as<std::string>(), standard};
    if (!entry[1].is_null()) {
      std::int64_t mode = entry[1].integer();
      if (mode == kDefault) mode = training ? kFinal : kAll;
      anchor.output = output_request(mode, entry[2].integer(), options.integer("device_iterations"),
                                     fmt::format(" of the tensor anchored as \"{}\"", name));
    }
    anchors.push_back(std::move(anchor));
  }
  return anchors;
}

}  // namespace

Session::Call call_of(const OptionStore& options, bool training) {
  OptionStore resolved = options;
  resolve_output_mode(resolved, training);
  const std::int64_t iterations = resolved.integer("device_iterations");
  const OutputRequest output =
      output_request(resolved.integer("output_mode"), resolved.integer("output_return_period"), iterations, "");
  return {.device_iterations = iterations,
          .gradient_accumulation = training ? options.gradient_accumulation() : 1,
          .output = output,
          .logs_cycles = options.popart_flag("instrumentWithHardwareCycleCounter"),
          .anchors = anchors_of(options, output, training),
          .device = device_to_take(options)};
}

void check_is_anchored(const OptionStore& options, const std::string& name) {
  const auto& anchors = *options.get(kGeneral, "anchored_tensors").as<OptionDict>();
  if (anchors.contains(name)) return;
  throw ArgumentError(fmt::format("No tensor was anchored as \"{}\" with options.anchorTensor", name));
}

void check_inference(const OptionStore& options, const ExecutionStrategy& strategy) {
  const std::int64_t steps = options.gradient_accumulation();
  if (steps == 1) return;
  throw Error(fmt::format(
      "[inferenceModel] Training.gradientAccumulation is {}; inference accumulates no gradients, so it must "
      "be 1. {}.{}",
      steps,
      language() == Language::kPython ? "Use options.clone() and set it to 1" : "Copy the options and set it to 1",
      strategy.kind() == ExecutionStrategy::Kind::Pipelined ? " A pipeline is filled by deviceIterations instead."
                                                            : ""));
}

void check_written_buffers(const OptionStore& options, const std::vector<std::string>& written,
                           const std::set<std::string>& statistics) {
  const std::int64_t groups = options.input_groups();
  if (!options.get(kGeneral, "broadcast_buffers").truth() || groups == 1) return;
  for (const std::string& name : written) {
    if (statistics.contains(name)) continue;
    throw Error(
        fmt::format("[compile] forward changes buffer \"{}\", and {} replicas with inputs of their own would each "
                    "change it differently. options.broadcastBuffers({}) gives each replica a copy of its own.",
                    name, groups, spelled(false)));
  }
}

void check_updatable_buffers(const OptionStore& options, const std::vector<std::string>& buffers) {
  const OptionValue* listed = options.find(kPopart, "updatableNamedBuffers");
  if (listed == nullptr) return;
  for (const OptionValue& item : *listed->as<OptionList>()) {
    const auto* name = item.as<std::string>();
    if (name != nullptr && std::find(buffers.begin(), buffers.end(), *name) != buffers.end()) continue;
    throw Error(fmt::format("[compile] updatableNamedBuffers lists {}, which is no buffer of the model; it has {}.",
                            name == nullptr ? text_of(item) : fmt::format("\"{}\"", *name),
                            buffers.empty() ? "none" : fmt::format("{}", fmt::join(buffers, ", "))));
  }
}

void check_may_group(const std::string& name, const at::Tensor& parameter, bool is_compiled) {
  if (is_compiled) {
    throw Error(fmt::format(
        "[replicaGrouping] parameter \"{}\": the model is compiled already; call replicaGrouping before its "
        "first call, or destroy() first.",
        name));
  }
  if (parameter.dim() == 0) {
    throw Error(
        fmt::format("[replicaGrouping] parameter \"{}\" is a single number; it needs a first dimension that holds one "
                    "value for each group of replicas.",
                    name));
  }
}

bool attaches_when_compiled(const OptionStore& options) { return options.integer("connection_type") == kAlways; }

void check_may_attach(const OptionStore& options) {
  if (options.integer("connection_type") != kNever) return;
  throw ArgumentError(
      fmt::format("The model cannot run: its options have {} (also set by useOfflineIpuTarget), with which it can only "
                  "be compiled",
                  spelled("ConnectionType::Never")));
}

IpuRequest ipu_request(const OptionStore& options, const std::set<std::int64_t>& used) {
  IpuRequest request;
  request.used = used;
  request.replicas = options.integer("replication_factor");
  request.rounds_up = options.get(kGeneral, "auto_round_num_ipus").truth();
  const OptionValue* use_model = options.find(kGeneral, "use_model");
  const bool is_model = use_model != nullptr ? use_model->truth() : environment_asks_for_ipu_model();
  if (is_model) aspen::log::debug("the IPUs are a model of {}", ipu_model_version());
  request.is_hardware = !is_model && !options.exists(kGeneral, "ipu_version");
  if (const OptionValue* device = options.find(kGeneral, "ipu_id")) request.device = device->integer();
  return request;
}

std::optional<std::int64_t> device_to_take(const OptionStore& options) {
  const IpuRequest request = ipu_request(options, {});
  return request.is_hardware ? request.device : std::nullopt;
}

}  // namespace poptorch
