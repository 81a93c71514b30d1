#include "poptorch/model/program_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/printer.h"

namespace poptorch {
namespace {

// Two checksums of 64 bits that begin differently: equal digests of different texts do not happen by accident.
std::string digest_of(const std::string& text) {
  const std::string salted = "2 " + text;
  return fmt::format("{:016x}{:016x}", aspen::checksum(std::as_bytes(std::span(text))),
                     aspen::checksum(std::as_bytes(std::span(salted))));
}

// -- text -------------------------------------------------------------------------------------------------------------
// The end of a quoted word that begins at `begin`.
std::size_t end_of_word(const std::string& text, std::size_t begin) {
  std::size_t at = begin + 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

// The text of a graph (aspen/compiler/ir/printer.h) in two: without ` at "model.py:42"`, and these.
struct GraphText {
  std::string graph, sources;
};
GraphText split(const std::string& text) {
  constexpr std::string_view kAt = " at \"";
  GraphText parts;
  for (std::size_t at = 0; at < text.size();) {
    const bool is_source = text.compare(at, kAt.size(), kAt) == 0;
    const std::size_t word = is_source ? at + kAt.size() - 1 : at;
    const std::size_t end =
        text[word] == '"' ? end_of_word(text, word) : std::min(text.find_first_of("\" ", at + 1), text.size());
    (is_source ? parts.sources : parts.graph).append(text, at, end - at);
    at = end;
  }
  return parts;
}

// -- functions on the host --------------------------------------------------------------------------------------------
// The text of a graph has the names of the functions it calls. This adds what they are called with.
class Functions final : public aspen::PartialAttrVisitor {
 public:
  using PartialAttrVisitor::operator();
  void operator()(const char*, std::shared_ptr<aspen::HostFunction>& field) override {
    if (field == nullptr) return;
    if (const auto stored = field->stored()) {
      text += fmt::format("{} {:016x}\n", field->name(), aspen::checksum(*stored));
    } else {
      unknown = field->name();
    }
  }
  void operator()(const char*, std::shared_ptr<aspen::CustomGradient>& field) override {
    if (field != nullptr) unknown = field->name();
  }
  void operator()(const char*, aspen::Body& field) override {
    if (field == nullptr) return;
    for (const auto& op : aspen::graph_of(field).ops()) op->attrs().visited(*this);
  }

  std::string text, unknown;
};

// -- settings ---------------------------------------------------------------------------------------------------------
// Structs are taken apart by structured bindings: a field that is added to one does not compile until it has its line
// here, and so cannot be forgotten in the key.
class SettingList {
 public:
  template <class T>
  SettingList& operator()(const std::string& name, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      settings.push_back({name, fmt::format("{}", static_cast<int>(value))});
    } else {
      settings.push_back({name, fmt::format("{}", value)});
    }
    return *this;
  }
  SettingList& operator()(const std::string& name, aspen::DType value) {
    settings.push_back({name, std::string(aspen::name_of(value))});
    return *this;
  }
  SettingList& operator()(const std::string& name, const aspen::TensorLocation& location) {
    const auto& [off_device, sharded, min_elements, min_shard_elements] = location;
    return (*this)(name + ".off_device", off_device)(name + ".sharded", sharded)(name + ".min_elements", min_elements)(
        name + ".min_shard_elements", min_shard_elements);
  }
  SettingList& operator()(const std::string& name, const aspen::MemoryBudget& budget) {
    const auto& [bytes, of_device, automatic, spelled] = budget;
    static_cast<void>(spelled);  // for messages
    return (*this)(name, bytes)(name + ".of_device", of_device)(name + ".automatic", automatic);
  }
  SettingList& operator()(const std::string& name, const aspen::StageCut& cut) {
    const auto& [devices, parts, measures, observe] = cut;
    static_cast<void>(observe);
    static_cast<void>(parts);  // of the graph: see program_key
    return (*this)(name, devices)(name + ".measures", measures);
  }
  SettingList& operator()(const std::string& name, const aspen::ReplicaGrouping& grouping) {
    const auto& [kind, size, returns_all] = grouping;
    return (*this)(name + ".kind", kind)(name + ".size", size)(name + ".returns_all", returns_all);
  }
  SettingList& operator()(const std::string& name, const std::optional<aspen::AutomaticLossScaling>& scaling) {
    (*this)(name, scaling.has_value());
    if (!scaling) return *this;
    const auto& [bin_edge, threshold, period, only_products] = *scaling;
    return (*this)(name + ".bin_edge", bin_edge)(name + ".threshold", threshold)(name + ".period", period)(
        name + ".only_products", only_products);
  }
  SettingList& operator()(const std::string& name, const std::vector<aspen::Anchor>& anchors) {
    (*this)(name, anchors.size());
    for (const auto& [anchor, tensor] : anchors) (*this)(name + "." + anchor, tensor);
    return *this;
  }
  SettingList& operator()(const std::string& name, const aspen::OptimizerSpec& optimizer) {
    const auto& [kind, groups, bias_correction, centered, tf_variant, scales_loss, max_grad_norm, accumulator_type,
                 first_order_type, second_order_type, keeps_parameter_types] = optimizer;
    (*this)(name, kind)(name + ".bias_correction", bias_correction)(name + ".centered", centered)(
        name + ".tf_variant", tf_variant)(name + ".scales_loss", scales_loss)(name + ".max_grad_norm", max_grad_norm)(
        name + ".accumulator_type", accumulator_type)(name + ".first_order_type", first_order_type)(
        name + ".second_order_type", second_order_type)(name + ".keeps_parameter_types", keeps_parameter_types);
    (*this)(name + ".groups", groups.size());
    for (const auto& [parameters, momentum, nesterov] : groups) {
      (*this)(fmt::format("{} of {}", name, fmt::join(parameters, ", ")),
              fmt::format("momentum {}, nesterov {}", momentum, nesterov));
    }
    return *this;
  }

  std::vector<ProgramKey::Setting> settings;
};

}  // namespace

std::vector<ProgramKey::Setting> settings_of(const aspen::CompileOptions& options) {
  const auto& [training, gradient_accumulation, mean_reduction, running_mean, device_iterations, execution, num_stages,
               recompute, locations, memory_budget, stage_cut, liveness, prefetch_depth, separate_backward_phase,
               replicas, input_grouping, checks_floats, anchors, holds_inputs, half_dot_partials, half_conv_partials,
               bfloat16_products, stochastic_rounding, automatic_loss_scaling, optimizer, min_group_elements,
               skip_passes, verify_passes, progress, timed, choices] = options;
  static_cast<void>(verify_passes);  // these three change no program
  static_cast<void>(progress);
  static_cast<void>(timed);
  static_cast<void>(choices);  // a program that is found has those of its first compilation
  const auto& [weights, optimizer_state, accumulators, activations] = locations;
  SettingList list;
  list("training", training)("gradient_accumulation", gradient_accumulation)("mean_reduction", mean_reduction)(
      "running_mean", running_mean)("device_iterations", device_iterations)("execution", execution)(
      "num_stages", num_stages)("recompute", recompute)("weights", weights)("optimizer_state", optimizer_state)(
      "accumulators", accumulators)("activations", activations)("memory_budget", memory_budget)("stage_cut", stage_cut)(
      "liveness", liveness)("prefetch_depth", prefetch_depth)("separate_backward_phase", separate_backward_phase)(
      "replicas", replicas)("input_grouping", input_grouping)("checks_floats", checks_floats)("anchors", anchors)(
      "holds_inputs", holds_inputs)("half_dot_partials", half_dot_partials)("half_conv_partials", half_conv_partials)(
      "bfloat16_products", bfloat16_products)("stochastic_rounding", stochastic_rounding)(
      "automatic_loss_scaling", automatic_loss_scaling)("optimizer", optimizer)(
      "min_group_elements", min_group_elements)("skip_passes", fmt::format("{}", fmt::join(skip_passes, ", ")));
  return list.settings;
}

ProgramKey program_key(const aspen::Graph& graph, const aspen::CompileOptions& options) {
  Functions functions;
  for (const auto& op : graph.ops()) op->attrs().visited(functions);
  for (const auto& [module, last_call] : options.stage_cut.parts) {
    functions.text += fmt::format("part {} {}\n", module, last_call);
  }
  const GraphText text = split(aspen::to_text(graph));
  return {digest_of(text.graph + functions.text), digest_of(text.sources), settings_of(options), functions.unknown};
}

std::string ProgramKey::digest(const aspen::ProgramOrigin& origin) const {
  const auto& [version, ops, backend] = origin;
  std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n", version, ops, backend, graph, sources);
  for (const Setting& setting : settings) text += fmt::format("{} = {}\n", setting.name, setting.value);
  return digest_of(text);
}

}  // namespace poptorch
