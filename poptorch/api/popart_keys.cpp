#include "poptorch/api/popart_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "aspen/base/error.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

enum class Kind : std::uint8_t { kBool, kInt, kFloat, kText, kTexts, kDict };

// Number of members of each enumeration; values are 0 .. n - 1.
const std::map<std::string, std::int64_t>& enumerations() {
  static const std::map<std::string, std::int64_t> table = {
      {"autoRecomputation", 5},
      {"syntheticDataMode", 4},
      {"virtualGraphMode", 4},
      {"subgraphCopyingStrategy", 2},
      {"mergeVarUpdate", 4},
      {"accumulateOuterFragmentSettings.schedule", 4},
      {"batchSerializationSettings.transformContext", 3},
      {"batchSerializationSettings.method", 3},
      {"batchSerializationSettings.batchSchedule", 4},
      {"autodiffSettings.stitchStrategy", 5},
      {"automaticLossScalingSettings.gradientTensorTrackingMethod", 3},
      {"accumulationAndReplicationReductionType", 3},
      {"meanAccumulationAndReplicationReductionStrategy", 3},
  };
  return table;
}

const std::vector<std::pair<Kind, std::vector<std::string>>>& kinds() {
  static const std::vector<std::pair<Kind, std::vector<std::string>>> table = {
      {Kind::kBool,
       {"aliasZeroCopy",
        "automaticLossScalingSettings.enabled",
        "batchSerializationSettings.concatOnVirtualGraphChange",
        "batchSerializationSettings.concatOnExecutionPhaseChange",
        "batchSerializationSettings.concatOnPipelineStageChange",
        "compileEngine",
        "constantWeights",
        "decomposeGradSum",
        "delayVarUpdates",
        "disableGradAccumulationTensorStreams",
        "disableOptimizerStateTensorStreams",
        "dotOpNames",
        "enableDistributedReplicatedGraphs",
        "enableEngineCaching",
        "enableExplicitIR",
        "enableExplicitMainLoops",
        "enableFloatingPointChecks",
        "enableFullyConnectedPass",
        "enableGradientAccumulation",
        "enableInplaceAmbiguityChecking",
        "enableLoadAndOffloadRNGState",
        "enableMergeExchange",
        "enableNonStableSoftmax",
        "enableOutlining",
        "enableOutliningCopyCostPruning",
        "enablePipelining",
        "enablePrefetchDatastreams",
        "enableReplicatedGraphs",
        "enableSerializedMatmuls",
        "enableStableNorm",
        "enableStochasticRounding",
        "enableSupportedDataTypeCasting",
        "ensureFp32LossScaleTensor",
        "explicitRecomputation",
        "exportPoplarComputationGraph",
        "exportPoplarVertexGraph",
        "groupHostSync",
        "groupNormStridedChannelGrouping",
        "instrumentWithHardwareCycleCounter",
        "opxAliasChecking",
        "opxModifyChecking",
        "rearrangeAnchorsOnHost",
        "rearrangeStreamsOnHost",
        "replicatedCollectivesSettings.prepareScheduleForMergingCollectives",
        "replicatedCollectivesSettings.mergeAllReduceCollectives",
        "scheduleNonWeightUpdateGradientConsumersEarly",
        "separateCallOpPdfs",
        "strictOpVersions",
        "useHostCopyOps"}},
      {Kind::kInt,
       {"accumulationFactor", "automaticLossScalingSettings.updatePeriod", "batchSerializationSettings.factor",
        "compilationProgressTotal", "defaultBufferingDepth", "defaultPrefetchBufferingDepth",
        "executionPhaseSettings.phases", "executionPhaseSettings.stages", "finalDotOp", "firstDotOp",
        "globalReplicaOffset", "globalReplicationFactor", "looseThresholdAtPeak", "mergeVarUpdateMemThreshold",
        "numIOTiles", "swapLimitScheduler", "transitiveClosureOptimizationThreshold", "patterns_level"}},
      {Kind::kFloat,
       {"outlineSequenceBreakCost", "outlineThreshold", "timeLimitScheduler",
        "automaticLossScalingSettings.thresholdUpperCountProportion", "automaticLossScalingSettings.binEdgeLocation"}},
      {Kind::kText,
       {"cachePath", "customCodeletCompileFlags", "kahnTieBreaker", "logDir", "partialsTypeMatMuls",
        "saveInitializersToFile", "serializedPoprithmsShiftGraphsDir"}},
      {Kind::kTexts,
       {"accumulateOuterFragmentSettings.excludedVirtualGraphs", "customCodelets", "dotChecks",
        "hardwareInstrumentations", "updatableNamedBuffers"}},
      {Kind::kDict,
       {"engineOptions", "reportOptions", "convolutionOptions", "matmulOptions", "lstmOptions", "gclOptions",
        "patterns"}},
  };
  return table;
}

bool is_int(const OptionValue& value) { return value.is_integer() && value.as<bool>() == nullptr; }

bool is_text(const OptionValue& value) { return value.as<std::string>() != nullptr; }

bool fits(Kind kind, const OptionValue& value) {
  switch (kind) {
    case Kind::kBool: return value.as<bool>() != nullptr;
    case Kind::kInt: return is_int(value);
    case Kind::kFloat: return is_int(value) || value.as<double>() != nullptr;
    case Kind::kText: return is_text(value);
    case Kind::kTexts: {
      const auto* list = value.as<OptionList>();
      const auto is_item = [](const OptionValue& item) { return is_text(item) || item.is_integer(); };
      return list != nullptr && std::all_of(list->begin(), list->end(), is_item);
    }
    case Kind::kDict: {
      const auto* dict = value.as<OptionDict>();
      const auto is_entry = [](const auto& entry) {
        return std::holds_alternative<std::string>(entry.first) &&
               (is_text(entry.second) || entry.second.template as<bool>() != nullptr);
      };
      return dict != nullptr && std::all_of(dict->begin(), dict->end(), is_entry);
    }
  }
  return false;
}

const char* expectation(Kind kind) {
  const bool python = language() == Language::kPython;
  switch (kind) {
    case Kind::kBool: return "a bool";
    case Kind::kInt: return "an int";
    case Kind::kFloat: return python ? "a float" : "a number";
    case Kind::kText: return python ? "a str" : "a string";
    case Kind::kTexts: return python ? "a list or set of str" : "a list of strings";
    case Kind::kDict: return python ? "a dict of str" : "a map of strings";
  }
  return "";
}

[[noreturn]] void wrong_value(const std::string& key, const OptionValue& value, const std::string& expected) {
  throw Error(fmt::format("[{}] option \"{}\" has the value {}; expected {}.", kPopart, key, text_of(value), expected));
}

[[noreturn]] void unknown(const std::string& key) {
  std::vector<std::string> known;
  for (const auto& [name, members] : enumerations()) known.push_back(name);
  for (const auto& [kind, names] : kinds()) known.insert(known.end(), names.begin(), names.end());
  throw Error(
      fmt::format("[{}] unknown option \"{}\"; close matches: {}.", kPopart, key, aspen::near_matches(key, known)));
}

void check(const std::string& key, const OptionValue& value) {
  if (const auto members = enumerations().find(key); members != enumerations().end()) {
    if (!is_int(value) || value.integer() < 0 || value.integer() >= members->second) {
      wrong_value(key, value, fmt::format("an int from 0 to {}", members->second - 1));
    }
    return;
  }
  for (const auto& [kind, names] : kinds()) {
    if (std::find(names.begin(), names.end(), key) == names.end()) continue;
    if (!fits(kind, value)) wrong_value(key, value, expectation(kind));
    return;
  }
  unknown(key);
}

}  // namespace

void check_popart_options(const OptionStore::Group& options) {
  for (const auto& [key, value] : options) check(key, value);
}

}  // namespace poptorch
