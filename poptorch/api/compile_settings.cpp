#include "poptorch/api/compile_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>

#include "aspen/base/log.h"
#include "aspen/base/log_directory.h"
#include "aspen/base/log_repeats.h"
#include "aspen/profiler/engine_options.h"
#include "poptorch/api/batching.h"
#include "poptorch/api/memory_budget.h"
#include "poptorch/api/option_setters.h"
#include "poptorch/api/popart_keys.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"
#include "poptorch/strategy.h"

namespace poptorch {
namespace {

// Values of the _Popart option autoRecomputation; 0 is none.
constexpr std::int64_t kStandard = 1, kNormOnly = 2, kPipeline = 3, kRecomputeAll = 4;
constexpr std::int64_t kMean = 1, kRunning = 0, kPostAndLoss = 2;  // ReductionType, MeanReductionStrategy

[[noreturn]] void refuse(const std::string& what, const std::string& supported) {
  throw Error(fmt::format("[compile] {} is not supported yet; {}.", what, supported));
}

void check_at_least_one(const char* name, std::int64_t value) {
  if (value < 1) throw Error(fmt::format("[compile] {} is {}; expected at least 1.", name, value));
}

void check_devices(const OptionStore& options) {
  const std::int64_t replicas = options.integer("replication_factor"), group = options.integer("input_group_size");
  check_at_least_one("replicationFactor", replicas);
  if (group < 1 || replicas % group != 0) {
    throw Error(
        fmt::format("[compile] the input group size {} does not divide the replication factor {}; call "
                    "inputReplicaGrouping after replicationFactor.",
                    group, replicas));
  }
  const std::int64_t processes = options.get(kDistributed, "num_distributed_processes").integer();
  if (processes > 1) {
    refuse(fmt::format("Training in {} processes", processes), "use one process, or Distributed.disable()");
  }
  const bool is_offline = options.exists(kGeneral, "ipu_version");
  const OptionValue* use_model = options.find(kGeneral, "use_model");
  if (is_offline && use_model != nullptr && use_model->truth()) {
    throw Error(fmt::format("[compile] useOfflineIpuTarget cannot be combined with useIpuModel({}).", spelled(true)));
  }
  if (is_offline && options.exists(kGeneral, "ipu_id")) {
    throw Error("[compile] useOfflineIpuTarget cannot be combined with useIpuId.");
  }
}

// A setting that may be given in a group of its own and as a _Popart option, which wins.
std::int64_t chosen(const OptionStore& options, const char* popart_key, const char* training_key) {
  const OptionValue* popart = options.find(kPopart, popart_key);
  return popart == nullptr ? options.get(kTraining, training_key).integer() : popart->integer();
}

std::int64_t reduction(const OptionStore& options) {
  return chosen(options, "accumulationAndReplicationReductionType", "accumulation_and_replication_reduction_type");
}

std::int64_t mean_strategy(const OptionStore& options) {
  constexpr const char* kKey = "meanAccumulationAndReplicationReductionStrategy";
  return chosen(options, kKey, kKey);
}

void check_reduction(const OptionStore& options) {
  const std::int64_t steps = options.get(kTraining, "gradient_accumulation").integer();
  const OptionValue* factor = options.find(kPopart, "accumulationFactor");
  if (factor != nullptr && steps != 1 && factor->integer() != steps) {
    throw Error(
        fmt::format("[compile] {} option accumulationFactor is {}, but Training.gradientAccumulation is {}; use the "
                    "latter alone.",
                    kPopart, factor->integer(), steps));
  }
  if (mean_strategy(options) == kPostAndLoss) {
    throw Error(fmt::format("[compile] {} is no longer available; use Running or Post.",
                            spelled("MeanReductionStrategy::PostAndLoss")));
  }
}

// Of the environment, which wins, and of the options.
aspen::EngineOptions engine_options(const OptionStore& options) {
  OptionDict engine = environment_engine_options();
  if (const OptionValue* given = options.find(kPopart, "engineOptions"))
    engine.merge(OptionDict(*given->as<OptionDict>()));
  aspen::EngineOptions texts;
  for (const auto& [key, value] : engine) {
    const auto* name = std::get_if<std::string>(&key);
    const auto* text = value.as<std::string>();
    if (name == nullptr) continue;
    texts[*name] = text == nullptr ? text_of(value) : *text;
    if (*name != "autoReport.directory" || (text != nullptr && !text->empty())) continue;
    throw Error(fmt::format("[compile] the engine option autoReport.directory is {}; expected the name of a folder.",
                            text_of(value)));
  }
  return texts;
}

std::optional<aspen::ProfileSettings> profile_settings(const OptionStore& options, const std::string& name) {
  const auto directory = aspen::profile_directory(engine_options(options));
  if (!directory) return std::nullopt;
  aspen::ProfileSettings made{.folder = *directory / name, .model = name};
  for (const auto& [key, value] : options.changed()) {
    made.options.push_back({std::get<std::string>(key), text_of(value)});
  }
  return made;
}

void check_features(const OptionStore& options) {
  const std::string on = spelled(true);
  if (options.popart_flag("instrumentWithHardwareCycleCounter") && !ipu_request(options, {}).is_hardware) {
    throw Error(fmt::format(
        "[compile] logCycleCount({}) needs hardware, which a model of the IPU and an offline target are not; "
        "leave out logCycleCount, or useIpuModel, POPTORCH_IPU_MODEL or useOfflineIpuTarget.",
        on));
  }
}

// By default a pipeline computes the activations of its stages again; elsewhere that must be asked for.
aspen::Recompute recompute(const OptionValue* asked, bool is_pipeline) {
  if (asked == nullptr) return aspen::Recompute::kStages;
  const std::int64_t kind = asked->integer();
  if (kind == kNormOnly) return aspen::Recompute::kNorms;
  if (kind == kPipeline || (kind == kStandard && is_pipeline)) return aspen::Recompute::kStages;
  return kind == kStandard || kind == kRecomputeAll ? aspen::Recompute::kAll : aspen::Recompute::kNothing;
}

aspen::ReplicaGrouping input_grouping(const OptionStore& options) {
  const std::int64_t size = options.integer("input_group_size");
  if (size == 1) return {.kind = aspen::ReplicaGrouping::Kind::kNone};
  return {static_cast<aspen::ReplicaGrouping::Kind>(options.integer("input_cgt")), static_cast<std::size_t>(size)};
}

// Of a location that the options give; nothing: they leave it to the strategy.
std::optional<std::int64_t> location_entry(const OptionStore& options, const char* kind, const char* entry) {
  const OptionValue* location = options.find(kLocations, std::string("location_") + kind);
  if (location == nullptr) return std::nullopt;
  const auto& entries = *location->as<OptionDict>();
  const auto found = entries.find(std::string(entry));
  if (found == entries.end()) return std::nullopt;
  return found->second.integer();
}

aspen::Execution execution(const ExecutionStrategy& strategy) {
  if (strategy.isPhased()) return aspen::Execution::kPhased;
  return strategy.kind() == ExecutionStrategy::Kind::Sharded ? aspen::Execution::kSharded
                                                             : aspen::Execution::kPipelined;
}

aspen::Liveness liveness(const ExecutionStrategy& strategy) {
  switch (strategy.liveness()) {
    case Liveness::AlwaysLive: return aspen::Liveness::kAlwaysLive;
    case Liveness::OffChipAfterFwd: return aspen::Liveness::kOffDeviceAfterForward;
    case Liveness::OffChipAfterFwdNoOverlap: return aspen::Liveness::kOffDeviceAfterForwardNoOverlap;
    case Liveness::OffChipAfterEachPhase: break;
  }
  return aspen::Liveness::kOffDeviceAfterEachPhase;
}

// A location of activations on the chip wins over what the strategy says.
aspen::Liveness liveness(const OptionStore& options, const ExecutionStrategy& strategy) {
  const bool stays = location_entry(options, "activation", "onChip").value_or(0) != 0;
  return strategy.isPhased() && !stays ? liveness(strategy) : aspen::Liveness::kAlwaysLive;
}

aspen::TensorLocation location(const OptionStore& options, const char* kind, bool off_device) {
  aspen::TensorLocation made;
  const std::optional<std::int64_t> on_chip = location_entry(options, kind, "onChip");
  made.off_device = on_chip ? *on_chip == 0 : off_device;
  made.sharded = location_entry(options, kind, "useReplicatedTensorSharding").value_or(0) != 0;
  made.min_elements = location_entry(options, kind, "minElementsForOffChip").value_or(made.min_elements);
  made.min_shard_elements =
      location_entry(options, kind, "minElementsForReplicatedTensorSharding").value_or(made.min_shard_elements);
  return made;
}

// What phases do not need is kept off the device between them, unless the options say otherwise.
aspen::TensorLocations locations(const OptionStore& options, bool phased) {
  return {location(options, "weight", phased), location(options, "optimizer", phased),
          location(options, "accumulator", phased), location(options, "activation", phased)};
}

// The type of partial sums, where it is given.
bool is_half(const OptionValue* type, const char* key) {
  if (type == nullptr) return false;
  const auto* text = type->as<std::string>();
  if (text != nullptr && (*text == "half" || *text == "float")) return *text == "half";
  throw Error(fmt::format("[{}] {} is {}; expected \"half\" or \"float\".", kPopart, key, text_of(*type)));
}

bool has_half_conv_partials(const OptionStore& options) {
  const OptionValue* given = options.find(kPopart, "convolutionOptions");
  if (given == nullptr) return false;
  const auto& entries = *given->as<OptionDict>();
  const auto found = entries.find(std::string("partialsType"));
  return found != entries.end() && is_half(&found->second, "partialsType of convolutionOptions");
}

// The rule and its numbers are PopART's.
std::optional<aspen::AutomaticLossScaling> automatic_loss_scaling(const OptionStore& options) {
  const std::string prefix = "automaticLossScalingSettings.";
  if (!scales_loss_automatically(options)) return std::nullopt;
  aspen::AutomaticLossScaling made;
  const auto number = [&](const char* name, double fallback) {
    const OptionValue* given = options.find(kPopart, prefix + name);
    if (given == nullptr) return fallback;
    const auto* real = given->as<double>();
    return real == nullptr ? static_cast<double>(given->integer()) : *real;
  };
  const auto refused = [&](const char* name, double value, const char* expected) {
    throw Error(fmt::format("[{}] option \"{}{}\" is {}; expected {}.", kPopart, prefix, name, value, expected));
  };
  made.bin_edge = number("binEdgeLocation", made.bin_edge);
  if (!(made.bin_edge > 0 && made.bin_edge <= 1)) refused("binEdgeLocation", made.bin_edge, "0 < value <= 1");
  made.threshold = number("thresholdUpperCountProportion", made.threshold);
  if (!(made.threshold >= 0 && made.threshold < 1)) {
    refused("thresholdUpperCountProportion", made.threshold, "0 <= value < 1");
  }
  made.period = static_cast<std::int64_t>(number("updatePeriod", 1));
  if (made.period < 1) refused("updatePeriod", static_cast<double>(made.period), "at least 1");
  const double tracked = number("gradientTensorTrackingMethod", 0);
  if (tracked == 2) {
    refused("gradientTensorTrackingMethod", tracked,
            "0 (all gradients) or 1 (those of matrix products and convolutions): which tensors a user means cannot be "
            "said");
  }
  made.only_products = tracked == 1;
  return made;
}

// Where compiled programs are kept; empty: nowhere.
std::string cache_directory(const OptionStore& options) {
  const OptionValue* path = options.find(kPopart, "cachePath");
  if (path == nullptr || !options.popart_flag("enableEngineCaching")) return "";
  const IpuRequest request = ipu_request(options, {});
  if (request.is_hardware || options.exists(kGeneral, "ipu_version")) return *path->as<std::string>();
  aspen::log::warn("programs for a model of the IPU are not cached: enableExecutableCaching has no effect");
  return "";
}

// Executors without a seed draw different numbers.
std::uint64_t seed(const OptionStore& options) {
  if (const OptionValue* given = options.find(kGeneral, "random_seed"))
    return static_cast<std::uint64_t>(given->integer());
  std::random_device source;
  return (static_cast<std::uint64_t>(source()) << 16) ^ source();
}

}  // namespace

bool scales_loss_automatically(const OptionStore& options) {
  return options.popart_flag("automaticLossScalingSettings.enabled");
}

void check_options(const OptionStore& options) {
  const OptionValue* repeats = options.find(kGeneral, "max_repeat_logs");
  const bool is_limited = repeats != nullptr && repeats->is_integer();
  aspen::log::limit_repeats(is_limited ? std::optional(repeats->integer()) : std::nullopt);
  check_popart_options(options.group(kPopart));
  const OptionValue* log_directory = options.find(kPopart, "logDir");
  if (log_directory == nullptr) log_directory = options.find(kGeneral, "log_dir");
  aspen::log::set_directory(*log_directory->as<std::string>());
  check_at_least_one("deviceIterations", options.integer("device_iterations"));
  check_at_least_one("Training.gradientAccumulation", options.gradient_accumulation());
  check_devices(options);
  check_reduction(options);
  check_features(options);
  static_cast<void>(engine_options(options));  // says what is wrong before anything is captured
}

bool is_profiled(const OptionStore& options) { return aspen::profile_directory(engine_options(options)).has_value(); }

CompileSettings compile_settings(const OptionStore& options, const ExecutionStrategy& strategy, bool training,
                                 const std::set<std::int64_t>& ipus) {
  const bool is_pipeline = strategy.kind() == ExecutionStrategy::Kind::Pipelined && ipus.size() > 1;
  CompileSettings made;
  aspen::CompileOptions& told = made.options;
  told.gradient_accumulation = training ? options.gradient_accumulation() : 1;
  told.device_iterations = options.integer("device_iterations");
  told.mean_reduction = reduction(options) == kMean;
  told.running_mean = mean_strategy(options) == kRunning;
  told.checks_floats = options.popart_flag("enableFloatingPointChecks");
  told.half_dot_partials = is_half(options.find(kPopart, "partialsTypeMatMuls"), "partialsTypeMatMuls");
  told.half_conv_partials = has_half_conv_partials(options);
  told.bfloat16_products = options.get(kPrecision, "bfloat16_products").truth();
  told.stochastic_rounding = options.popart_flag("enableStochasticRounding");
  if (training) told.automatic_loss_scaling = automatic_loss_scaling(options);
  told.execution = execution(strategy);
  if (const OptionValue* depth = options.find(kPopart, "defaultPrefetchBufferingDepth")) {
    told.prefetch_depth = depth->integer();
  }
  told.recompute = recompute(options.find(kPopart, "autoRecomputation"), is_pipeline);
  told.replicas = static_cast<std::size_t>(options.integer("replication_factor"));
  told.input_grouping = input_grouping(options);
  told.liveness = liveness(options, strategy);
  told.separate_backward_phase = strategy.separateBackwardPhase();
  told.locations = locations(options, strategy.isPhased());
  told.memory_budget = memory_budget(options);
  told.stage_cut.devices = strategy.autoIpus();
  told.stage_cut.measures = strategy.measures();
  for (const Session::Anchor& anchor : call_of(options, training).anchors) {
    told.anchors.push_back({anchor.name, anchor.tensor});
  }
  if (const OptionValue* mode = options.find(kPopart, "syntheticDataMode")) {
    made.synthetic_data = static_cast<SyntheticData>(mode->integer());
  }
  const OptionValue* name = options.find(kGeneral, "model_name");
  made.name = name != nullptr ? *name->as<std::string>() : training ? "training" : "inference";
  made.seed = seed(options);
  made.cache = cache_directory(options);
  made.backend = *options.get(kHost, "backend").as<std::string>();
  made.profile = profile_settings(options, made.name);
  return made;
}

void add_optimizer(CompileSettings& settings, const OptimizerProgram& optimizer) {
  settings.options.optimizer = optimizer.spec;
  settings.settings = optimizer.settings;
  std::erase_if(settings.options.anchors,
                [&](const aspen::Anchor& anchor) { return optimizer.scalars.contains(anchor.tensor); });
}

}  // namespace poptorch
