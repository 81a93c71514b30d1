// Setters of the general settings of Options.
#include <ATen/Context.h>
#include <fmt/format.h>

#include "aspen/base/log.h"
#include "poptorch/api/memory_budget.h"
#include "poptorch/api/option_table.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"

namespace poptorch::option_table {
namespace {

void set_input_grouping(OptionStore& store, const OptionList& a) {
  enum { kAll, kConsecutive, kOrthogonal, kNoGrouping };
  std::int64_t size = a[0].integer(), kind = a[1].integer();
  if (kind == kNoGrouping) {
    size = 1;
    kind = kConsecutive;
  }
  if (kind == kAll) {
    throw ValueError(fmt::format("Inputs cannot be grouped by {}; use Consecutive, Orthogonal or NoGrouping",
                                 spelled("CommGroupType::All")));
  }
  const std::int64_t replicas = store.integer("replication_factor");
  if (size > replicas) {
    throw ValueError(fmt::format("Input group size {} exceeds the replication factor {}; call replicationFactor first",
                                 size, replicas));
  }
  if (size < 1 || replicas % size != 0) {
    throw ValueError(fmt::format("Input group size {} does not divide the replication factor {}", size, replicas));
  }
  store.put(kGeneral, "input_group_size", size);
  store.put(kGeneral, "input_cgt", EnumMember{"CommGroupType", kind});
}

void set_output_mode(OptionStore& store, const OptionList& a) {
  const std::int64_t every_n = 1;
  std::int64_t period = 1;
  if (a[0].integer() == every_n) {
    if (!a[1].is_integer() || a[1].integer() < 1) {
      throw ArgumentError(fmt::format("{} needs a positive output_return_period, not {}", spelled("OutputMode::EveryN"),
                                      text_of(a[1])));
    }
    period = a[1].integer();
  } else if (!a[1].is_null()) {
    aspen::log::info("output_return_period {} is ignored: it only applies to {}", text_of(a[1]),
                     spelled("OutputMode::EveryN"));
  }
  store.put(kGeneral, "output_mode", a[0].integer());
  store.put(kGeneral, "output_return_period", period);
}

void anchor_tensor(OptionStore& store, const OptionList& a) {
  const bool every_n = !a[2].is_null() && a[2].integer() == 1;
  OptionDict anchors = *store.get(kGeneral, "anchored_tensors").as<OptionDict>();
  const OptionValue mode = a[2].is_null() ? OptionValue() : OptionValue(a[2].integer());
  anchors[*a[0].as<std::string>()] = OptionList{a[1], mode, every_n ? a[3] : OptionValue(1)};
  store.put(kGeneral, "anchored_tensors", anchors);
}

void set_memory_proportion(OptionStore& store, const OptionList& a) {
  OptionDict proportions;
  for (const auto& [key, value] : *a[0].as<OptionDict>()) {
    const auto* name = std::get_if<std::string>(&key);
    const bool is_ipu = name != nullptr && name->size() > 3 && name->size() < 12 && name->rfind("IPU", 0) == 0 &&
                        name->find_first_not_of("0123456789", 3) == std::string::npos;
    const auto* real = value.as<double>();
    if (!is_ipu || (real == nullptr && !value.is_integer())) {
      throw ArgumentError(
          fmt::format("Memory proportions are numbers given per device as {{\"IPU0\": 0.2}}; {} is not such an entry",
                      text_of(OptionDict{{key, value}})));
    }
    proportions[std::stoll(name->substr(3))] = real == nullptr ? static_cast<double>(value.integer()) : *real;
  }
  store.put(kGeneral, "available_memory_proportion", proportions);
}

void set_memory_budget(OptionStore& store, const OptionList& a) {
  store.put(kGeneral, "memory_budget", text_of(memory_budget_of(a[0], a[1].truth())));
}

void set_seed(OptionStore& store, const OptionList& a) {
  at::manual_seed(static_cast<std::uint64_t>(a[0].integer()));
  store.put(kGeneral, "random_seed", a[0]);
}

void set_cache(OptionStore& store, const OptionList& a) {
  store.erase(kPopart, "cachePath");
  if (!a[0].is_null()) store.put(kPopart, "cachePath", a[0]);
  store.put(kPopart, "enableEngineCaching", !a[0].is_null());
}

void set_profiling(OptionStore& store, const OptionList& a) {
  const bool is_named = !a[0].is_null() && a[0].truth();
  const OptionDict wanted = {{"autoReport.all", "true"},
                             {"autoReport.directory", is_named ? a[0] : OptionValue(".")},
                             {"debug.allowOutOfMemory", "true"}};
  const OptionDict environment = environment_engine_options();
  OptionDict engine;
  const OptionValue* before = store.find(kPopart, "engineOptions");
  if (before != nullptr && before->as<OptionDict>() != nullptr) engine = *before->as<OptionDict>();
  for (const auto& [name, value] : wanted) {
    engine[name] = value;
    if (environment.contains(name)) {
      aspen::log::warn("{} of POPLAR_ENGINE_OPTIONS overrides the value chosen by enableProfiling ({})",
                       std::get<std::string>(name), text_of(value));
    }
  }
  store.put(kPopart, "engineOptions", engine);
}

void append_excludes(OptionStore& store, const OptionList& a) {
  OptionList excludes = *store.get(kHost, "source_location_excludes").as<OptionList>();
  const OptionList& added = *a[0].as<OptionList>();
  excludes.insert(excludes.end(), added.begin(), added.end());
  store.put(kHost, "source_location_excludes", excludes);
}

}  // namespace

void add_general(std::vector<Setter>& table) {
  const auto add = [&](const char* name, std::vector<SetterParameter> parameters, Body body, const char* help) {
    table.push_back({kGeneral, name, std::move(parameters), std::move(body), help});
  };
  add("deviceIterations", {integer("device_iterations")}, into(kGeneral, "device_iterations"),
      "Micro-batches (inference) or weight updates (training) that one call runs on the device.");
  add("replicationFactor", {integer("replication_factor")}, into(kGeneral, "replication_factor"),
      "Data-parallel copies of the model.");
  add("inputReplicaGrouping", {integer("input_group_size"), member("input_group_type", "CommGroupType")},
      set_input_grouping, "Replicas of one group receive the same input.");
  add("broadcastBuffers", {boolean("broadcast_buffers", true)}, into(kGeneral, "broadcast_buffers"),
      "Whether replicas share the buffers of the model, which then must not be written; else each has its own.");
  add("outputMode", {member("output_mode", "OutputMode"), optional({"output_return_period"})}, set_output_mode,
      "Which micro-batches of the outputs a call returns.");
  add("anchorTensor",
      {text("short_name"), text("long_name"), optional(member("output_mode", "OutputMode")),
       integer("output_return_period", 1)},
      anchor_tensor, "Returns a tensor of the graph to the host after each call.");
  add("setAvailableMemoryProportion", {{"available_memory_proportion", Expected::kDict}}, set_memory_proportion,
      "Memory for matrix products and convolutions by device, {\"IPU0\": 0.2}: a hint.");
  add("setMemoryBudget", {{"budget"}, boolean("automatic", false)}, set_memory_budget,
      "Memory that each device may take: \"256M\", bytes, or {\"IPU0\": \"256M\"} by device. A model that needs more "
      "is "
      "an error when it is compiled, with a table and advice; automatic: tensors leave the devices and are computed "
      "again "
      "until it fits, which changes no result. 0: no limit.");
  add("autoRoundNumIPUs", {boolean("auto_round_num_ipus", true)}, into(kGeneral, "auto_round_num_ipus"),
      "Takes a power of two of IPUs when the model needs another number, instead of an error.");
  add("useIpuModel", {truth("use_model")}, into(kGeneral, "use_model"),
      "Whether the virtual IPUs stand for a model of the hardware, which takes any number of IPUs.");
  add("useIpuId", {integer("ipu_id")}, into(kGeneral, "ipu_id"), "Takes this device and no other.");
  add(
      "useOfflineIpuTarget", {integer("ipu_version", 2)},
      [](OptionStore& store, const OptionList& a) {
        store.put(kGeneral, "connection_type", 2);  // Never
        store.put(kGeneral, "ipu_version", a[0]);
      },
      "Compiles without ever attaching to a device.");
  add("connectionType", {member("connection_type", "ConnectionType")}, number_into("connection_type"),
      "When the executor attaches to a device.");
  add("syncPattern", {member("sync_pattern", "SyncPattern")}, number_into("sync_pattern"),
      "Which devices synchronise with each other: a hint.");
  add("randomSeed", {integer("random_seed")}, set_seed, "Seeds the random ops of the device, and torch on the host.");
  add("enableStableNorm", {truth("enabled")}, into(kPopart, "enableStableNorm"),
      "Slower and more accurate statistics of normalisations.");
  add(
      "enableSyntheticData", {truth("enabled")},
      [](OptionStore& store, const OptionList& a) {
        store.put(kPopart, "syntheticDataMode", a[0].truth() ? 2 : 0);  // 2: random normal
      },
      "Inputs are made on the device; nothing is transferred.");
  add("enableExecutableCaching", {optional(text("path"))}, set_cache,
      "Keeps compiled programs in this directory; None switches that off.");
  table.back().parameters[0].standard.reset();
  add("logCycleCount", {truth("log_cycle_count")}, into(kPopart, "instrumentWithHardwareCycleCounter"),
      "Counts the cycles of each call.");
  add("enableProfiling", {optional(text("profile_dir"))}, set_profiling, "Writes a report into this directory.");
  add("modelName", {text("name")}, into(kGeneral, "model_name"), "The directory of the report.");
  add("logDir", {text("log_dir")}, into(kGeneral, "log_dir"), "The directory of log files.");
  add("maxRepeatLogs", {optional(integer("max_lines"))}, into(kGeneral, "max_repeat_logs"),
      "How often the same line is logged; None: always.");
  table.back().parameters[0].standard.reset();
  add("showCompilationProgressBar", {truth("show", true)}, into(kHost, "show_compilation_progress_bar"),
      "Whether a bar shows how far compilation is.");
  add(
      "disableModuleNamescope", {},
      [](OptionStore& store, const OptionList&) { store.put(kHost, "module_namescope_enabled", false); },
      "Ops are not named after the modules they come from.");
  add("relaxOptimizerAttributesChecks", {truth("relax", true)}, into(kHost, "relax_optimizer_checks"),
      "Unexpected attributes of optimisers are logged at DEBUG instead of WARN.");
  add("updatableNamedBuffers", {{"buffers", Expected::kList}}, into(kPopart, "updatableNamedBuffers"),
      "Buffers that copyNamedBuffersToDevice may refresh.");
  add("sourceLocationExcludes", {{"excludes", Expected::kList}}, into(kHost, "source_location_excludes"),
      "Stack frames whose file contains one of these texts are not taken for user code.");
  add("appendToLocationExcludes", {{"excludes", Expected::kList}}, append_excludes,
      "More texts of sourceLocationExcludes.");
}

}  // namespace poptorch::option_table
