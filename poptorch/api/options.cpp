#include "poptorch/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "poptorch/api/option_store.h"

namespace poptorch {
namespace {

template <class Enumeration>
OptionValue member(const char* type, Enumeration value) {
  return EnumMember{type, static_cast<std::int64_t>(value)};
}

template <class T>
OptionValue or_null(const std::optional<T>& value) {
  return value ? OptionValue(*value) : OptionValue();
}

template <class T>
OptionDict dict(const std::map<std::string, T>& entries) {
  OptionDict made;
  for (const auto& [key, value] : entries) made[key] = value;
  return made;
}

OptionList list(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

std::string text_at(const OptionStore& store, const char* group, const char* key) {
  return *store.get(group, key).as<std::string>();
}

std::optional<std::string> optional_text(const OptionStore& store, const char* group, const char* key) {
  const OptionValue* value = store.find(group, key);
  return value == nullptr || value->as<std::string>() == nullptr ? std::nullopt
                                                                 : std::optional(*value->as<std::string>());
}

std::optional<std::int64_t> optional_integer(const OptionStore& store, const char* group, const char* key) {
  const OptionValue* value = store.find(group, key);
  return value == nullptr || value->is_null() ? std::nullopt : std::optional(value->integer());
}

}  // namespace

// -- Training -------------------------------------------------------------------------------------------------------
TrainingOptions& TrainingOptions::gradientAccumulation(std::int64_t steps) {
  store_.apply(kTraining, "gradientAccumulation", {steps});
  return *this;
}

TrainingOptions& TrainingOptions::accumulationAndReplicationReductionType(ReductionType type) {
  store_.apply(kTraining, "accumulationAndReplicationReductionType", {member("ReductionType", type)});
  return *this;
}

TrainingOptions& TrainingOptions::setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy strategy) {
  store_.apply(kTraining, "setMeanAccumulationAndReplicationReductionStrategy",
               {member("MeanReductionStrategy", strategy)});
  return *this;
}

TrainingOptions& TrainingOptions::setAutomaticLossScaling(bool enabled) {
  store_.apply(kTraining, "setAutomaticLossScaling", {enabled});
  return *this;
}

TrainingOptions& TrainingOptions::setConvolutionDithering(bool enabled) {
  store_.apply(kTraining, "setConvolutionDithering", {enabled});
  return *this;
}

std::int64_t TrainingOptions::gradientAccumulation() const { return store_.gradient_accumulation(); }

ReductionType TrainingOptions::accumulationAndReplicationReductionType() const {
  return static_cast<ReductionType>(store_.get(kTraining, "accumulation_and_replication_reduction_type").integer());
}

MeanReductionStrategy TrainingOptions::meanAccumulationAndReplicationReductionStrategy() const {
  return static_cast<MeanReductionStrategy>(
      store_.get(kTraining, "meanAccumulationAndReplicationReductionStrategy").integer());
}

bool TrainingOptions::automaticLossScaling() const {
  return store_.popart_flag("automaticLossScalingSettings.enabled");
}

// -- Precision ------------------------------------------------------------------------------------------------------
PrecisionOptions& PrecisionOptions::enableFloatingPointExceptions(bool enabled) {
  store_.apply(kPrecision, "enableFloatingPointExceptions", {enabled});
  return *this;
}

PrecisionOptions& PrecisionOptions::enableStochasticRounding(bool enabled) {
  store_.apply(kPrecision, "enableStochasticRounding", {enabled});
  return *this;
}

PrecisionOptions& PrecisionOptions::enableBFloat16Products(bool enabled) {
  store_.apply(kPrecision, "enableBFloat16Products", {enabled});
  return *this;
}

PrecisionOptions& PrecisionOptions::setPartialsType(c10::ScalarType type) {
  const bool is_known = type == c10::ScalarType::Half || type == c10::ScalarType::Float;
  // What is no type of partials is handed over as it is called, for the message.
  store_.apply(kPrecision, "setPartialsType", {is_known ? member("dtype", type) : OptionValue(c10::toString(type))});
  return *this;
}

bool PrecisionOptions::floatingPointExceptions() const { return store_.popart_flag("enableFloatingPointChecks"); }

bool PrecisionOptions::stochasticRounding() const { return store_.popart_flag("enableStochasticRounding"); }

bool PrecisionOptions::bfloat16Products() const { return store_.get(kPrecision, "bfloat16_products").truth(); }

c10::ScalarType PrecisionOptions::partialsType() const {
  return optional_text(store_, kPopart, "partialsTypeMatMuls") == "half" ? c10::ScalarType::Half
                                                                         : c10::ScalarType::Float;
}

// -- TensorLocations ------------------------------------------------------------------------------------------------
namespace {

void apply_to(std::map<std::string, std::int64_t>& entries, const char* setter, const OptionValue& argument) {
  OptionStore store;
  for (const auto& [key, value] : entries) store.put(kLocationSettings, key, value);
  store.apply(kLocationSettings, setter, {argument});
  entries.clear();
  for (const auto& [key, value] : store.group(kLocationSettings)) entries[key] = value.integer();
}

}  // namespace

TensorLocationSettings& TensorLocationSettings::useOnChipStorage(std::optional<bool> use) {
  apply_to(entries_, "useOnChipStorage", or_null(use));
  return *this;
}

TensorLocationSettings& TensorLocationSettings::useReplicatedTensorSharding(bool use) {
  apply_to(entries_, "useReplicatedTensorSharding", use);
  return *this;
}

TensorLocationSettings& TensorLocationSettings::useIOTilesToLoad(bool use) {
  apply_to(entries_, "useIOTilesToLoad", use);
  return *this;
}

TensorLocationSettings& TensorLocationSettings::useIOTilesToStore(bool use) {
  apply_to(entries_, "useIOTilesToStore", use);
  return *this;
}

TensorLocationSettings& TensorLocationSettings::minElementsForOffChip(std::int64_t elements) {
  apply_to(entries_, "minElementsForOffChip", elements);
  return *this;
}

TensorLocationSettings& TensorLocationSettings::minElementsForReplicatedTensorSharding(std::int64_t elements) {
  apply_to(entries_, "minElementsForReplicatedTensorSharding", elements);
  return *this;
}

TensorLocationOptions& TensorLocationOptions::numIOTiles(std::int64_t tiles) {
  store_.apply(kLocations, "numIOTiles", {tiles});
  return *this;
}

TensorLocationOptions& TensorLocationOptions::setActivationLocation(const TensorLocationSettings& location) {
  store_.apply(kLocations, "setActivationLocation", {LocationEntries{location.entries()}});
  return *this;
}

TensorLocationOptions& TensorLocationOptions::setWeightLocation(const TensorLocationSettings& location) {
  store_.apply(kLocations, "setWeightLocation", {LocationEntries{location.entries()}});
  return *this;
}

TensorLocationOptions& TensorLocationOptions::setOptimizerLocation(const TensorLocationSettings& location) {
  store_.apply(kLocations, "setOptimizerLocation", {LocationEntries{location.entries()}});
  return *this;
}

TensorLocationOptions& TensorLocationOptions::setAccumulatorLocation(const TensorLocationSettings& location) {
  store_.apply(kLocations, "setAccumulatorLocation", {LocationEntries{location.entries()}});
  return *this;
}

std::optional<std::int64_t> TensorLocationOptions::numIOTiles() const {
  return optional_integer(store_, kLocations, "numIOTiles");
}

// -- Distributed ----------------------------------------------------------------------------------------------------
DistributedOptions& DistributedOptions::configureProcessId(std::int64_t process, std::int64_t num_processes) {
  store_.apply(kDistributed, "configureProcessId", {process, num_processes});
  return *this;
}

DistributedOptions& DistributedOptions::setEnvVarNames(const std::string& num_processes, const std::string& process) {
  store_.apply(kDistributed, "setEnvVarNames", {num_processes, process});
  return *this;
}

DistributedOptions& DistributedOptions::disable() {
  store_.apply(kDistributed, "disable", {});
  return *this;
}

std::int64_t DistributedOptions::processId() const {
  return store_.get(kDistributed, "distributed_process_id").integer();
}

std::int64_t DistributedOptions::numProcesses() const {
  return store_.get(kDistributed, "num_distributed_processes").integer();
}

// -- Popart ---------------------------------------------------------------------------------------------------------
namespace {

struct ToOption {
  OptionValue operator()(const std::vector<std::string>& texts) const { return list(texts); }
  OptionValue operator()(const std::map<std::string, std::string>& entries) const { return dict(entries); }
  template <class T>
  OptionValue operator()(const T& value) const {
    return value;
  }
};

}  // namespace

PopartOptions& PopartOptions::set(const std::string& key, const Value& value) {
  store_.apply(kPopart, "set", {key, std::visit(ToOption(), value)});
  return *this;
}

PopartOptions& PopartOptions::setEngineOptions(const std::map<std::string, std::string>& options) {
  store_.apply(kPopart, "setEngineOptions", {dict(options)});
  return *this;
}

PopartOptions& PopartOptions::setPatterns(const std::map<std::string, bool>& patterns, std::int64_t level) {
  store_.apply(kPopart, "setPatterns", {dict(patterns), level});
  return *this;
}

bool PopartOptions::exists(const std::string& key) const { return store_.exists(kPopart, key); }

// -- Options --------------------------------------------------------------------------------------------------------
Options::Options()
    : store_(std::make_unique<OptionStore>(OptionStore::with_defaults())), Training(*store_), Precision(*store_),
      TensorLocations(*store_), Distributed(*store_), Popart(*store_) {}

Options::Options(const Options& other)
    : store_(std::make_unique<OptionStore>(*other.store_)), strategy_(other.strategy_), Training(*store_),
      Precision(*store_), TensorLocations(*store_), Distributed(*store_), Popart(*store_) {}

Options& Options::operator=(const Options& other) {
  *store_ = *other.store_;  // the groups refer to it
  strategy_ = other.strategy_;
  return *this;
}

Options::~Options() = default;

Options& Options::deviceIterations(std::int64_t iterations) {
  store_->apply(kGeneral, "deviceIterations", {iterations});
  return *this;
}

Options& Options::replicationFactor(std::int64_t replicas) {
  store_->apply(kGeneral, "replicationFactor", {replicas});
  return *this;
}

Options& Options::inputReplicaGrouping(std::int64_t group_size, CommGroupType type) {
  store_->apply(kGeneral, "inputReplicaGrouping", {group_size, member("CommGroupType", type)});
  return *this;
}

Options& Options::broadcastBuffers(bool broadcast) {
  store_->apply(kGeneral, "broadcastBuffers", {broadcast});
  return *this;
}

Options& Options::outputMode(OutputMode mode, std::optional<std::int64_t> period) {
  store_->apply(kGeneral, "outputMode", {member("OutputMode", mode), or_null(period)});
  return *this;
}

Options& Options::anchorTensor(const std::string& short_name, const std::string& long_name,
                               std::optional<OutputMode> mode, std::int64_t period) {
  store_->apply(kGeneral, "anchorTensor",
                {short_name, long_name, mode ? member("OutputMode", *mode) : OptionValue(), period});
  return *this;
}

Options& Options::setExecutionStrategy(ExecutionStrategy strategy) {
  strategy_ = std::move(strategy);
  return *this;
}

Options& Options::setAvailableMemoryProportion(const std::map<std::string, double>& proportions) {
  store_->apply(kGeneral, "setAvailableMemoryProportion", {dict(proportions)});
  return *this;
}

Options& Options::setMemoryBudget(const std::string& budget, bool automatic) {
  store_->apply(kGeneral, "setMemoryBudget", {budget, automatic});
  return *this;
}

Options& Options::setMemoryBudget(std::int64_t bytes, bool automatic) {
  store_->apply(kGeneral, "setMemoryBudget", {bytes, automatic});
  return *this;
}

Options& Options::autoRoundNumIPUs(bool round) {
  store_->apply(kGeneral, "autoRoundNumIPUs", {round});
  return *this;
}

Options& Options::randomSeed(std::uint64_t seed) {
  store_->apply(kGeneral, "randomSeed", {seed});
  return *this;
}

Options& Options::enableExecutableCaching(const std::optional<std::string>& path) {
  store_->apply(kGeneral, "enableExecutableCaching", {or_null(path)});
  return *this;
}

Options& Options::useIpuModel(bool use) {
  store_->apply(kGeneral, "useIpuModel", {use});
  return *this;
}

Options& Options::useIpuId(std::int64_t id) {
  store_->apply(kGeneral, "useIpuId", {id});
  return *this;
}

Options& Options::useOfflineIpuTarget(std::int64_t ipu_version) {
  store_->apply(kGeneral, "useOfflineIpuTarget", {ipu_version});
  return *this;
}

Options& Options::connectionType(ConnectionType type) {
  store_->apply(kGeneral, "connectionType", {member("ConnectionType", type)});
  return *this;
}

Options& Options::syncPattern(SyncPattern pattern) {
  store_->apply(kGeneral, "syncPattern", {member("SyncPattern", pattern)});
  return *this;
}

Options& Options::enableStableNorm(bool enabled) {
  store_->apply(kGeneral, "enableStableNorm", {enabled});
  return *this;
}

Options& Options::enableSyntheticData(bool enabled) {
  store_->apply(kGeneral, "enableSyntheticData", {enabled});
  return *this;
}

Options& Options::logCycleCount(bool enabled) {
  store_->apply(kGeneral, "logCycleCount", {enabled});
  return *this;
}

Options& Options::enableProfiling(const std::optional<std::string>& directory) {
  store_->apply(kGeneral, "enableProfiling", {or_null(directory)});
  return *this;
}

Options& Options::modelName(const std::string& name) {
  store_->apply(kGeneral, "modelName", {name});
  return *this;
}

Options& Options::logDir(const std::string& directory) {
  store_->apply(kGeneral, "logDir", {directory});
  return *this;
}

Options& Options::maxRepeatLogs(std::optional<std::int64_t> lines) {
  store_->apply(kGeneral, "maxRepeatLogs", {or_null(lines)});
  return *this;
}

Options& Options::disableModuleNamescope() {
  store_->apply(kGeneral, "disableModuleNamescope", {});
  return *this;
}

Options& Options::relaxOptimizerAttributesChecks(bool relax) {
  store_->apply(kGeneral, "relaxOptimizerAttributesChecks", {relax});
  return *this;
}

Options& Options::updatableNamedBuffers(const std::vector<std::string>& names) {
  store_->apply(kGeneral, "updatableNamedBuffers", {OptionValue(list(names))});
  return *this;
}

Options& Options::backend(const std::string& name) {
  store_->set(kHost, "backend", name);
  return *this;
}

// -- what was set ---------------------------------------------------------------------------------------------------
std::int64_t Options::deviceIterations() const { return store_->integer("device_iterations"); }
std::int64_t Options::replicationFactor() const { return store_->integer("replication_factor"); }
std::int64_t Options::inputGroupSize() const { return store_->integer("input_group_size"); }
CommGroupType Options::inputGroupType() const { return static_cast<CommGroupType>(store_->integer("input_cgt")); }
bool Options::broadcastBuffers() const { return store_->get(kGeneral, "broadcast_buffers").truth(); }
OutputMode Options::outputMode() const { return static_cast<OutputMode>(store_->integer("output_mode")); }
std::int64_t Options::outputReturnPeriod() const { return store_->integer("output_return_period"); }

std::map<std::int64_t, double> Options::availableMemoryProportion() const {
  std::map<std::int64_t, double> proportions;
  for (const auto& [ipu, value] : *store_->get(kGeneral, "available_memory_proportion").as<OptionDict>()) {
    proportions[std::get<std::int64_t>(ipu)] = *value.as<double>();
  }
  return proportions;
}

std::optional<std::string> Options::memoryBudget() const { return optional_text(*store_, kGeneral, "memory_budget"); }

bool Options::autoRoundNumIPUs() const { return store_->get(kGeneral, "auto_round_num_ipus").truth(); }

std::optional<std::uint64_t> Options::randomSeed() const { return optional_integer(*store_, kGeneral, "random_seed"); }

std::optional<std::string> Options::executableCaching() const { return optional_text(*store_, kPopart, "cachePath"); }

std::optional<bool> Options::useIpuModel() const {
  const OptionValue* value = store_->find(kGeneral, "use_model");
  return value == nullptr ? std::nullopt : std::optional(value->truth());
}

std::optional<std::int64_t> Options::useIpuId() const { return optional_integer(*store_, kGeneral, "ipu_id"); }

ConnectionType Options::connectionType() const {
  return static_cast<ConnectionType>(store_->integer("connection_type"));
}

SyncPattern Options::syncPattern() const { return static_cast<SyncPattern>(store_->integer("sync_pattern")); }

std::optional<std::string> Options::modelName() const { return optional_text(*store_, kGeneral, "model_name"); }

std::string Options::logDir() const { return text_at(*store_, kGeneral, "log_dir"); }

std::optional<std::int64_t> Options::maxRepeatLogs() const {
  return optional_integer(*store_, kGeneral, "max_repeat_logs");
}

bool Options::moduleNamescope() const { return store_->get(kHost, "module_namescope_enabled").truth(); }

std::vector<std::string> Options::updatableNamedBuffers() const {
  std::vector<std::string> names;
  const OptionValue* value = store_->find(kPopart, "updatableNamedBuffers");
  if (value == nullptr) return names;
  for (const OptionValue& name : *value->as<OptionList>()) names.push_back(*name.as<std::string>());
  return names;
}

std::string Options::backend() const { return text_at(*store_, kHost, "backend"); }

std::string Options::toString() const { return store_->to_string(strategy_.toString()); }

std::string Options::toJson() const { return store_->to_json(); }

Options& Options::fromJson(const std::string& text) {
  store_->apply_json(text, "fromJson");
  return *this;
}

}  // namespace poptorch
