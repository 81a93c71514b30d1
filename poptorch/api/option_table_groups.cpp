// Setters of the groups of Options: Training, Precision, Jit, TensorLocations, Distributed and _Popart.
#include <fmt/format.h>

#include <cstdlib>

#include "aspen/base/log.h"
#include "poptorch/api/literal.h"
#include "poptorch/api/option_table.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"

namespace poptorch::option_table {
namespace {

void set_reduction(OptionStore& store, const OptionList& a) {
  if (a[0].integer() > 1) {
    throw ValueError(fmt::format("The reduction of gradients must be {} or {}, not {}", spelled("ReductionType::Mean"),
                                 spelled("ReductionType::Sum"), text_of(a[0])));
  }
  store.put(kTraining, "accumulation_and_replication_reduction_type", a[0]);
}

void add_training(std::vector<Setter>& table) {
  const auto add = [&](const char* name, SetterParameter parameter, Body body, const char* help, bool value_error) {
    table.push_back({kTraining, name, {std::move(parameter)}, std::move(body), help, value_error});
  };
  add("gradientAccumulation", integer("gradient_accumulation"), into(kTraining, "gradient_accumulation"),
      "Micro-batches whose gradients make up one update of the weights.", false);
  add("accumulationAndReplicationReductionType", member("reduction_type", "ReductionType"), set_reduction,
      "How the gradients of micro-batches and of replicas are combined.", true);
  add("setMeanAccumulationAndReplicationReductionStrategy", member("mean_reduction_strategy", "MeanReductionStrategy"),
      into(kTraining, "meanAccumulationAndReplicationReductionStrategy"), "When the division of a mean happens.", true);
  add("setAutomaticLossScaling", truth("enabled"), into(kPopart, "automaticLossScalingSettings.enabled"),
      "The device adjusts the loss scaling after each update.", false);
  add(
      "setConvolutionDithering", boolean("enabled"),
      [](OptionStore& store, const OptionList& a) {
        store.put(kPopart, "convolutionOptions", OptionDict{{"enableConvDithering", a[0]}});
      },
      "Spreads convolutions over the device: a hint.", false);
}

void set_partials(OptionStore& store, const OptionList& a) {
  const std::string name = a[0].integer() == 5 ? "half" : "float";
  store.put(kPopart, "partialsTypeMatMuls", name);
  store.put(kPopart, "convolutionOptions", OptionDict{{"partialsType", name}});
}

void add_precision(std::vector<Setter>& table) {
  table.push_back({kPrecision,
                   "enableFloatingPointExceptions",
                   {boolean("exceptions_on")},
                   into(kPopart, "enableFloatingPointChecks"),
                   "A division by zero or an overflow ends the call."});
  table.push_back({kPrecision,
                   "enableStochasticRounding",
                   {truth("use_stochastic_rounding")},
                   into(kPopart, "enableStochasticRounding"),
                   "Results in half precision are rounded at random."});
  table.push_back({kPrecision,
                   "enableBFloat16Products",
                   {boolean("enabled")},
                   into(kPrecision, "bfloat16_products"),
                   "Matrix products and convolutions of float32 multiply in bfloat16 and add in float32."});
  table.push_back({kPrecision,
                   "setPartialsType",
                   {member("dtype", "dtype")},
                   set_partials,
                   "The type in which matrix products and convolutions accumulate: torch.float or torch.half.",
                   true});
  table.push_back({kPrecision,
                   "halfFloatCasting",
                   {{"half_float_casting"}},
                   [](OptionStore&, const OptionList& a) {
                     aspen::log::warn(
                         "Precision.halfFloatCasting({}) is deprecated and changes nothing: types promote as in "
                         "PyTorch",
                         text_of(a[0]));
                   },
                   "Deprecated."});
  table.push_back({kPrecision,
                   "runningStatisticsAlwaysFloat",
                   {boolean("value")},
                   [](OptionStore&, const OptionList&) {
                     aspen::log::warn(
                         "Precision.runningStatisticsAlwaysFloat is deprecated and changes nothing: cast the running "
                         "statistics of the layer instead");
                   },
                   "Deprecated.",
                   true});
  table.push_back(
      {kJit,
       "traceModel",
       {truth("trace_model")},
       [](OptionStore&, const OptionList& a) {
         if (a[0].truth()) {
           throw ValueError("Tracing models is not available: models are captured while they are dispatched");
         }
         aspen::log::warn("Jit.traceModel is deprecated: models are always captured while they are dispatched");
       },
       "Deprecated."});
}

void set_io_tiles(OptionStore& store, const OptionList& a) {
  const std::int64_t tiles = a[0].integer();
  if (tiles % 2 != 0 || tiles < 32 || tiles > 192) {
    throw ArgumentError(fmt::format("numIOTiles must be an even number from 32 to 192, not {}", tiles));
  }
  store.put(kLocations, "numIOTiles", a[0]);
}

void add_locations(std::vector<Setter>& table) {
  table.push_back({kLocations, "numIOTiles", {integer("num_tiles")}, set_io_tiles, "Tiles that only transfer data."});
  for (const auto& [name, kind] : {std::pair("setActivationLocation", "activation"),
                                   {"setWeightLocation", "weight"},
                                   {"setOptimizerLocation", "optimizer"},
                                   {"setAccumulatorLocation", "accumulator"}}) {
    const std::string key = std::string("location_") + kind;
    table.push_back({kLocations,
                     name,
                     {{"location", Expected::kLocation}},
                     [key](OptionStore& store, const OptionList& a) {
                       OptionDict kept;
                       for (const auto& [entry, value] : a[0].as<LocationEntries>()->entries) kept[entry] = value;
                       store.put(kLocations, key, kept);
                     },
                     "Where these tensors are kept: a TensorLocationSettings."});
  }
  const auto flag = [](const char* key) {
    return [key](OptionStore& store, const OptionList& a) {
      if (a[0].is_null()) return store.erase(kLocationSettings, key);
      store.put(kLocationSettings, key, a[0].integer());
    };
  };
  SetterParameter on_chip = boolean("use_on_chip_storage", true);
  on_chip.may_be_null = true;
  table.push_back({kLocationSettings,
                   "useOnChipStorage",
                   {on_chip},
                   flag("onChip"),
                   "Whether the tensors stay on the device between uses; None: as the strategy has it."});
  table.push_back({kLocationSettings,
                   "useReplicatedTensorSharding",
                   {boolean("use_rts", true)},
                   flag("useReplicatedTensorSharding"),
                   "Each replica keeps a part of the tensor."});
  for (const char* name : {"useIOTilesToLoad", "useIOTilesToStore"}) {
    table.push_back({kLocationSettings,
                     name,
                     {boolean("use_io_tiles", true)},
                     flag(name),
                     "Which tiles transfer the tensors: a hint."});
  }
  for (const char* name : {"minElementsForOffChip", "minElementsForReplicatedTensorSharding"}) {
    table.push_back({kLocationSettings, name, {integer("min_elements")}, flag(name), "Smaller tensors stay whole."});
  }
}

void check_process(const OptionList& a) {
  const std::int64_t process = a[0].integer(), processes = a[1].integer();
  if (process >= 0 && process < processes) return;
  throw ValueError(fmt::format("[configureProcessId] process {} of {} is none; expected 0 <= process id < processes",
                               process, processes));
}

void configure_process(OptionStore& store, const OptionList& a) {
  store.put(kDistributed, "distributed_process_id", a[0]);
  store.put(kDistributed, "num_distributed_processes", a[1]);
}

std::int64_t number_in_environment(const std::string& name, std::int64_t otherwise) {
  const char* written = std::getenv(name.c_str());
  if (written == nullptr) return otherwise;
  const OptionValue value = parse_json(written, name);
  if (!value.is_integer()) throw ValueError(fmt::format("[{}] is \"{}\"; expected a whole number.", name, written));
  return value.integer();
}

void add_distributed(std::vector<Setter>& table) {
  table.push_back({kDistributed,
                   "configureProcessId",
                   {integer("process_id"), integer("num_processes")},
                   [](OptionStore& store, const OptionList& a) {
                     check_process(a);
                     configure_process(store, a);
                   },
                   "Which of how many processes this one is."});
  table.push_back({kDistributed,
                   "disable",
                   {},
                   [](OptionStore& store, const OptionList&) {
                     configure_process(store, {0, 1});
                   },
                   "This process is the only one."});
  table.push_back({kDistributed,
                   "setEnvVarNames",
                   {text("var_num_processes"), text("var_process_id")},
                   [](OptionStore& store, const OptionList& a) {
                     configure_process(store, {number_in_environment(*a[1].as<std::string>(), 0),
                                               number_in_environment(*a[0].as<std::string>(), 1)});
                   },
                   "Reads the two variables now; one that is not set means one process, number 0."});
}

void set_patterns(OptionStore& store, const OptionList& a) {
  for (const auto& [name, enabled] : *a[0].as<OptionDict>()) {
    if (!std::holds_alternative<std::string>(name) || enabled.as<bool>() == nullptr) {
      throw ArgumentError(
          fmt::format("Patterns are switched by name, {{\"OpToIdentity\": {}}}; {} is not such an entry", spelled(true),
                      text_of(OptionDict{{name, enabled}})));
    }
  }
  store.put(kPopart, "patterns_level", a[1]);
  store.put(kPopart, "patterns", a[0]);
}

void add_popart(std::vector<Setter>& table) {
  table.push_back({kPopart,
                   "set",
                   {text("key"), {"value"}},
                   [](OptionStore& store, const OptionList& a) { store.put(kPopart, *a[0].as<std::string>(), a[1]); },
                   "A setting of the compiler by name; checked when a model is compiled."});
  table.push_back({kPopart,
                   "setEngineOptions",
                   {{"engine_options"}},
                   into(kPopart, "engineOptions"),
                   "Settings of the engine by name."});
  table.push_back({kPopart,
                   "setPatterns",
                   {{"patterns", Expected::kDict}, integer("level", 2)},
                   set_patterns,
                   "Switches graph patterns on and off by name: a hint."});
}

}  // namespace

void add_groups(std::vector<Setter>& table) {
  add_training(table);
  add_precision(table);
  add_locations(table);
  add_distributed(table);
  add_popart(table);
}

}  // namespace poptorch::option_table
