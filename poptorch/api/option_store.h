// OptionStore: the settings of a poptorch::Options by group and name, with the checks that both languages share. The
// typed setters of C++, the methods of Python, JSON and files of options all end in apply().
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "poptorch/api/option_value.h"

namespace poptorch {

// Names of groups. The general settings are in the group "", what concerns the host alone is in kHost.
inline constexpr const char *kGeneral = "", *kTraining = "Training", *kPrecision = "Precision", *kJit = "Jit",
                            *kLocations = "TensorLocations", *kDistributed = "Distributed", *kPopart = "_Popart",
                            *kHost = "Host", *kLocationSettings = "TensorLocationSettings";

class OptionStore {
 public:
  using Group = std::map<std::string, OptionValue>;

  // Empty groups: of a TensorLocationSettings.
  OptionStore() = default;
  // What a new Options has: defaults, and what the environment says (POPTORCH_CACHE_DIR, POPTORCH_DEFAULT_OPTIONS,
  // OMPI_COMM_WORLD_SIZE and _RANK).
  static OptionStore with_defaults();

  const std::map<std::string, Group>& groups() const { return groups_; }
  const Group& group(const std::string& name) const;
  bool exists(const std::string& group, const std::string& key) const { return find(group, key) != nullptr; }
  const OptionValue* find(const std::string& group, const std::string& key) const;  // nullptr: not set
  const OptionValue& get(const std::string& group, const std::string& key) const;   // ArgumentError: not set
  // A new value for a setting that exists, of the kind it has; anything else is an ArgumentError.
  void set(const std::string& group, const std::string& key, const OptionValue& value);
  void create_or_set(const std::string& group, const std::string& key, const OptionValue& value);
  void put(const std::string& group, const std::string& key, OptionValue value);  // whatever was there
  void erase(const std::string& group, const std::string& key);

  // Calls a setter: "gradientAccumulation" of the group "Training". Arguments that are left out take their defaults.
  void apply(const std::string& group, const std::string& setter, const OptionList& arguments);
  // The same by a dotted name, or assigns a setting: "Training.gradient_accumulation", {4}.
  void apply(const std::string& accessor, const OptionList& arguments);
  void apply_json(const std::string& text, const std::string& source);

  // key=value, ..., in alphabetical order.
  std::vector<std::string> entries(const std::string& group) const;
  // Everything, as Options::toString has it; `strategy`: its text.
  std::string to_string(const std::string& strategy) const;
  // All that differs from the defaults, by accessor, and as apply_json takes it.
  OptionDict changed() const;
  std::string to_json() const;

  // Short forms for settings that always exist.
  std::int64_t integer(const std::string& key) const { return get(kGeneral, key).integer(); }
  // The _Popart option accumulationFactor is another name for it.
  std::int64_t gradient_accumulation() const {
    const OptionValue* factor = find(kPopart, "accumulationFactor");
    return factor != nullptr ? factor->integer() : get(kTraining, "gradient_accumulation").integer();
  }
  // Groups of replicas with inputs of their own.
  std::int64_t input_groups() const { return integer("replication_factor") / integer("input_group_size"); }
  bool popart_flag(const std::string& key) const;  // whether a _Popart option is set, and not to zero or false

 private:
  std::map<std::string, Group> groups_;
};

// The accessors of a JSON object, each with its arguments: a list holds them all, anything else is the only one. Names
// of enumeration members stand for these. `source` names the text in errors.
std::vector<std::pair<std::string, OptionList>> json_calls(const std::string& text, const std::string& source);

// "Training", or "Options" for the general settings: as messages name a group.
std::string shown_group(const std::string& group);

}  // namespace poptorch
