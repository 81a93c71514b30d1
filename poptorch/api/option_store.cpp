#include "poptorch/api/option_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "aspen/base/error.h"
#include "poptorch/api/literal.h"
#include "poptorch/api/option_setters.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

OptionStore::Group general_defaults() {
  return {{"replication_factor", 1},
          {"input_group_size", 1},
          {"input_cgt", EnumMember{"CommGroupType", 1}},  // Consecutive
          {"broadcast_buffers", true},
          {"device_iterations", 1},
          {"log_dir", "."},
          {"max_repeat_logs", 4},
          {"auto_round_num_ipus", false},
          {"anchored_tensors", OptionDict()},
          {"output_mode", 4},  // Default
          {"output_return_period", 1},
          {"connection_type", 0},  // Always
          {"sync_pattern", 0},     // Full
          {"available_memory_proportion", OptionDict()}};
}

std::map<std::string, OptionStore::Group> defaults() {
  return {{kGeneral, general_defaults()},
          {kTraining,
           {{"gradient_accumulation", 1},
            {"accumulation_and_replication_reduction_type", EnumMember{"ReductionType", 1}},                // Mean
            {"meanAccumulationAndReplicationReductionStrategy", EnumMember{"MeanReductionStrategy", 1}}}},  // Post
          {kPrecision, {{"bfloat16_products", false}}},
          {kDistributed,
           {{"num_distributed_processes", 1}, {"distributed_process_id", 0}, {"ipuof_configs", OptionDict()}}},
          {kPopart, {{"instrumentWithHardwareCycleCounter", false}, {"rearrangeAnchorsOnHost", false}}},
          {kHost,
           {{"show_compilation_progress_bar", true},
            {"module_namescope_enabled", true},
            {"relax_optimizer_checks", false},
            {"source_location_excludes", OptionList()},
            {"backend", ""}}}};
}

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// The value as a setting that holds `current` would keep it; nothing if the kinds do not fit.
std::optional<OptionValue> converted(const OptionValue& current, const OptionValue& value) {
  if (current.is_null()) return value;
  const bool is_int = current.is_integer() && current.as<bool>() == nullptr;
  if (is_int && (value.is_integer() || value.as<EnumMember>() != nullptr)) {
    return value.as<std::uint64_t>() != nullptr ? value : OptionValue(value.integer());
  }
  if (current.data.index() != value.data.index()) return std::nullopt;
  const auto* member = current.as<EnumMember>();
  if (member != nullptr && member->type != value.as<EnumMember>()->type) return std::nullopt;
  return value;
}

std::vector<std::string> keys_of(const OptionStore::Group& group) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : group) keys.push_back(key);
  return keys;
}

// How JSON assigns a setting: those that exist only when they are set have a setter to make them.
std::string accessor_of(const std::string& group, const std::string& key) {
  static const std::map<std::string, std::string> setters = {{"random_seed", "randomSeed"},
                                                             {"model_name", "modelName"},
                                                             {"use_model", "useIpuModel"},
                                                             {"ipu_id", "useIpuId"},
                                                             {"ipu_version", "useOfflineIpuTarget"},
                                                             {"memory_budget", "setMemoryBudget"},
                                                             {"location_activation", "setActivationLocation"},
                                                             {"location_weight", "setWeightLocation"},
                                                             {"location_optimizer", "setOptimizerLocation"},
                                                             {"location_accumulator", "setAccumulatorLocation"}};
  const auto setter = setters.find(key);
  return (group.empty() ? "" : group + ".") + (setter == setters.end() ? key : setter->second);
}

// What a text argument of a call in JSON stands for.
OptionValue json_argument(const OptionValue& value, bool is_location) {
  if (const auto* name = value.as<std::string>()) {
    const OptionValue member = enum_member(*name);
    return member.is_null() ? value : member;
  }
  const auto* entries = value.as<OptionDict>();
  if (!is_location || entries == nullptr) return value;
  LocationEntries location;
  for (const auto& [key, number] : *entries) {
    if (!std::holds_alternative<std::string>(key) || !number.is_integer()) return value;
    location.entries[std::get<std::string>(key)] = number.integer();
  }
  return location;
}

}  // namespace

std::vector<std::pair<std::string, OptionList>> json_calls(const std::string& text, const std::string& source) {
  const OptionValue parsed = parse_json(text, source);
  const auto* object = parsed.as<OptionDict>();
  if (object == nullptr) {
    throw Error(fmt::format("[{}] is {}; expected a JSON object of options, {{\"deviceIterations\": 4}}.", source,
                            kind_of(parsed)));
  }
  std::vector<std::pair<std::string, OptionList>> calls;
  for (const auto& [name, value] : *object) {
    const auto& accessor = std::get<std::string>(name);
    const bool is_location = accessor.ends_with("Location");
    OptionList arguments = value.as<OptionList>() != nullptr ? *value.as<OptionList>() : OptionList{value};
    for (OptionValue& argument : arguments) argument = json_argument(argument, is_location);
    calls.emplace_back(accessor, std::move(arguments));
  }
  return calls;
}

std::string shown_group(const std::string& group) { return group.empty() ? "Options" : group; }

OptionStore OptionStore::with_defaults() {
  OptionStore store;
  store.groups_ = defaults();
  store.apply(kDistributed, "setEnvVarNames", {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"});
  const std::string cache = environment("POPTORCH_CACHE_DIR"), json = environment("POPTORCH_DEFAULT_OPTIONS");
  if (!cache.empty()) store.apply(kGeneral, "enableExecutableCaching", {cache});
  if (!json.empty()) store.apply_json(json, "POPTORCH_DEFAULT_OPTIONS");
  return store;
}

const OptionStore::Group& OptionStore::group(const std::string& name) const {
  static const Group empty;
  const auto found = groups_.find(name);
  return found == groups_.end() ? empty : found->second;
}

const OptionValue* OptionStore::find(const std::string& group, const std::string& key) const {
  const Group& values = this->group(group);
  const auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second;
}

const OptionValue& OptionStore::get(const std::string& group, const std::string& key) const {
  if (const OptionValue* value = find(group, key)) return *value;
  throw ArgumentError(fmt::format("Invalid option {}: {} has {}", key, shown_group(group),
                                  fmt::join(keys_of(this->group(group)), ", ")));
}

void OptionStore::set(const std::string& group, const std::string& key, const OptionValue& value) {
  const OptionValue& current = get(group, key);
  const std::optional<OptionValue> kept = converted(current, value);
  if (!kept) {
    throw ArgumentError(
        fmt::format("Unexpected value {} for option {}; expected {}", text_of(value), key, kind_of(current)));
  }
  put(group, key, *kept);
}

void OptionStore::create_or_set(const std::string& group, const std::string& key, const OptionValue& value) {
  exists(group, key) ? set(group, key, value) : put(group, key, value);
}

void OptionStore::put(const std::string& group, const std::string& key, OptionValue value) {
  groups_[group][key] = std::move(value);
}

void OptionStore::erase(const std::string& group, const std::string& key) { groups_[group].erase(key); }

void OptionStore::apply(const std::string& group, const std::string& setter, const OptionList& arguments) {
  const Setter* found = find_setter(group, setter);
  if (found == nullptr) {
    std::vector<std::string> names = keys_of(this->group(group));
    for (const Setter& known : option_setters()) {
      if (known.group == group) names.push_back(known.name);
    }
    throw ArgumentError(fmt::format("{} has no option {}; close matches: {}", shown_group(group), setter,
                                    aspen::near_matches(setter, names)));
  }
  found->body(*this, checked_arguments(*found, arguments));
}

void OptionStore::apply(const std::string& accessor, const OptionList& arguments) {
  const auto dot = accessor.find('.');
  std::string group = dot == std::string::npos ? kGeneral : accessor.substr(0, dot);
  const std::string name = dot == std::string::npos ? accessor : accessor.substr(dot + 1);
  if (group == "Popart" || group == "_popart") group = kPopart;
  if (find_setter(group, name) != nullptr || arguments.size() != 1) return apply(group, name, arguments);
  if (group == kPopart) return put(group, name, arguments[0]);
  if (!exists(group, name)) return apply(group, name, arguments);  // says what there is
  set(group, name, arguments[0]);
}

void OptionStore::apply_json(const std::string& text, const std::string& source) {
  for (const auto& [accessor, arguments] : json_calls(text, source)) apply(accessor, arguments);
}

OptionDict OptionStore::changed() const {
  OptionDict calls;
  const auto standard = defaults();
  for (const auto& [group, values] : groups_) {
    const auto known = standard.find(group);
    for (const auto& [key, value] : values) {
      if (known != standard.end() && known->second.contains(key) && known->second.at(key) == value) continue;
      const bool is_list = value.as<OptionList>() != nullptr;  // one argument, not several
      calls[accessor_of(group, key)] = is_list ? OptionValue(OptionList{value}) : value;
    }
  }
  const auto proportions = calls.find("available_memory_proportion");
  if (proportions != calls.end()) {
    OptionDict named;
    for (const auto& [ipu, value] : *proportions->second.as<OptionDict>()) {
      named[fmt::format("IPU{}", std::get<std::int64_t>(ipu))] = value;
    }
    calls.erase(proportions);
    calls["setAvailableMemoryProportion"] = named;
  }
  return calls;
}

std::string OptionStore::to_json() const { return json_of(changed()); }

std::vector<std::string> OptionStore::entries(const std::string& group) const {
  std::vector<std::string> texts;
  for (const auto& [key, value] : this->group(group)) texts.push_back(fmt::format("{}={}", key, text_of(value)));
  return texts;
}

std::string OptionStore::to_string(const std::string& strategy) const {
  std::vector<std::string> texts = entries(kGeneral);
  if (!strategy.empty()) texts.push_back("execution_strategy=" + strategy);
  for (std::string& text : entries(kHost)) texts.push_back(std::move(text));
  for (const char* group : {kDistributed, kJit, kPrecision, kLocations, kTraining, kPopart}) {
    texts.push_back(fmt::format("{}={}({})", group, group, fmt::join(entries(group), ", ")));
  }
  return fmt::format("Options(\n  {}\n)", fmt::join(texts, ",\n  "));
}

bool OptionStore::popart_flag(const std::string& key) const {
  const OptionValue* value = find(kPopart, key);
  return value != nullptr && value->truth();
}

}  // namespace poptorch
