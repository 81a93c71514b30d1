#include "aspen/compiler/passes/run_on_text.h"

#include <array>
#include <functional>
#include <map>

#include "aspen/compiler/ir/parser.h"
#include "aspen/compiler/ir/printer.h"
#include "aspen/compiler/ir/verifier.h"
#include "aspen/compiler/passes/pipeline.h"

namespace aspen {
namespace {

// What each word of the text does to the options.
class OptionReader {
 public:
  OptionReader() {
    add_run_words();
    add_place_words();
    add_optimizer_words();
  }

  CompileOptions read(std::string_view text) {
    for (const std::string& entry : split_words(text, " \t")) {
      std::string word = entry.substr(0, entry.find('='));
      auto found = words_.find(word);
      if (found == words_.end()) {
        std::string known;
        for (const auto& [name, action] : words_) known += (known.empty() ? "" : ", ") + name;
        throw UserError("unknown option \"{}\"; the options are {}.", entry, known);
      }
      word_ = word;
      found->second(word.size() == entry.size() ? "" : entry.substr(word.size() + 1));
    }
    return std::move(options_);
  }

 private:
  void add_run_words() {
    number("gradient_accumulation", options_.gradient_accumulation);
    number("device_iterations", options_.device_iterations);
    number("num_stages", options_.num_stages);
    number("replicas", options_.replicas);
    number("prefetch_depth", options_.prefetch_depth);
    flag("sum", options_.mean_reduction, false);
    flag("running_mean", options_.running_mean);
    flag("bfloat16_products", options_.bfloat16_products);
    flag("stochastic_rounding", options_.stochastic_rounding);
    words_["automatic_loss_scaling"] = [this](const std::string&) { options_.automatic_loss_scaling.emplace(); };
    flag("inference", options_.training, false);
    flag("holds_inputs", options_.holds_inputs);
    words_["anchor"] = [this](const std::string& value) {
      const std::size_t colon = value.find(':');
      if (colon == std::string::npos) throw UserError("anchor={}: expected anchor=NAME:TENSOR.", value);
      options_.anchors.push_back({.name = value.substr(0, colon), .tensor = value.substr(colon + 1)});
    };
    choice("execution", options_.execution,
           {{"pipelined", Execution::kPipelined}, {"sharded", Execution::kSharded}, {"phased", Execution::kPhased}});
    choice("recompute", options_.recompute,
           {{"nothing", Recompute::kNothing},
            {"stages", Recompute::kStages},
            {"norms", Recompute::kNorms},
            {"all", Recompute::kAll},
            {"parts", Recompute::kParts}});
    number("memory_budget", options_.memory_budget.bytes);
    flag("automatic_budget", options_.memory_budget.automatic);
    words_["cut"] = [this](const std::string& value) {
      options_.stage_cut.devices = static_cast<std::int64_t>(to_number(value));
      options_.stage_cut.measures = false;  // the same graph everywhere
    };
  }

  void add_place_words() {
    choice("liveness", options_.liveness,
           {{"always_live", Liveness::kAlwaysLive},
            {"off_device_after_forward", Liveness::kOffDeviceAfterForward},
            {"off_device_after_forward_no_overlap", Liveness::kOffDeviceAfterForwardNoOverlap},
            {"off_device_after_each_phase", Liveness::kOffDeviceAfterEachPhase}});
    flag("separate_backward_phase", options_.separate_backward_phase);
    for_kinds("off_device", &TensorLocation::off_device);
    for_kinds("sharded", &TensorLocation::sharded);
    for_all_kinds("min_elements", &TensorLocation::min_elements);
    for_all_kinds("min_shard_elements", &TensorLocation::min_shard_elements);
    number("min_group_elements", options_.min_group_elements);
  }

  void add_optimizer_words() {
    OptimizerSpec& spec = options_.optimizer;
    words_["optimizer"] = [&spec](const std::string& value) { spec.kind = value; };
    words_["group"] = [&spec](const std::string& value) {
      spec.groups.push_back({.parameters = split_words(value, ",")});
    };
    words_["momentum"] = [this](const std::string&) { last_group().momentum = true; };
    words_["nesterov"] = [this](const std::string&) { last_group().nesterov = true; };
    flag("no_bias_correction", spec.bias_correction, false);
    flag("centered", spec.centered);
    flag("tf_variant", spec.tf_variant);
    flag("scales_loss", spec.scales_loss);
    flag("keeps_parameter_types", spec.keeps_parameter_types);
    number("max_grad_norm", spec.max_grad_norm);
    const std::map<std::string, DType> types{{"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}};
    choice("accumulators", spec.accumulator_type, types);
    choice("first_order", spec.first_order_type, types);
    choice("second_order", spec.second_order_type, types);
  }

  void flag(const std::string& word, bool& field, bool value = true) {
    words_[word] = [&field, value](const std::string&) { field = value; };
  }

  template <class T>
  void number(const std::string& word, T& field) {
    words_[word] = [this, &field](const std::string& value) { field = static_cast<T>(to_number(value)); };
  }

  template <class T>
  void choice(const std::string& word, T& field, std::map<std::string, T> values) {
    words_[word] = [this, &field, values = std::move(values)](const std::string& value) {
      auto found = values.find(value);
      if (found != values.end()) {
        field = found->second;
        return;
      }
      std::vector<std::string> names;
      for (const auto& entry : values) names.push_back(entry.first);
      throw UserError("option {} has no value \"{}\"; close matches: {}.", word_, value, near_matches(value, names));
    };
  }

  void for_kinds(const std::string& word, bool TensorLocation::*field) {
    words_[word] = [this, field](const std::string& value) {
      for (const std::string& kind : split_words(value, ",")) location(kind).*field = true;
    };
  }

  void for_all_kinds(const std::string& word, std::int64_t TensorLocation::*field) {
    words_[word] = [this, field](const std::string& value) {
      for (const char* kind : kKinds) location(kind).*field = static_cast<std::int64_t>(to_number(value));
    };
  }

  TensorLocation& location(const std::string& kind) {
    TensorLocations& all = options_.locations;
    if (kind == "weights") return all.weights;
    if (kind == "optimizer_state") return all.optimizer_state;
    if (kind == "accumulators") return all.accumulators;
    if (kind == "activations") return all.activations;
    throw UserError("option {} has no kind of tensor \"{}\"; close matches: {}.", word_, kind,
                    near_matches(kind, {kKinds.begin(), kKinds.end()}));
  }

  OptimizerSpec::Group& last_group() {
    if (options_.optimizer.groups.empty()) throw UserError("option {} comes after the group it belongs to.", word_);
    return options_.optimizer.groups.back();
  }

  double to_number(const std::string& value) const {
    try {
      std::size_t used = 0;
      double result = std::stod(value, &used);
      if (used == value.size()) return result;
    } catch (const std::exception&) {
    }
    throw UserError("option {} takes a number, not \"{}\".", word_, value);
  }

  static constexpr std::array<const char*, 4> kKinds{"weights", "optimizer_state", "accumulators", "activations"};
  CompileOptions options_{.training = true, .verify_passes = true};
  std::map<std::string, std::function<void(const std::string& value)>> words_;
  std::string word_;  // being read
};

// Stages of ops are their parts, each of a module that is called once.
std::vector<StageCut::Part> parts_of(const Graph& graph) {
  std::vector<StageCut::Part> parts;
  for (const auto& op : graph.ops()) {
    for (auto next = static_cast<std::int64_t>(parts.size()); next <= op->placement.stage; ++next) {
      parts.push_back({.module = fmt::format("part{}", next), .last_call = next});
    }
  }
  return parts;
}

}  // namespace

std::vector<std::string> split_words(std::string_view text, std::string_view separators) {
  std::vector<std::string> words;
  while (true) {
    auto start = text.find_first_not_of(separators);
    if (start == std::string_view::npos) return words;
    auto end = std::min(text.find_first_of(separators, start), text.size());
    words.emplace_back(text.substr(start, end - start));
    text.remove_prefix(end);
  }
}

CompileOptions parse_compile_options(std::string_view text) { return OptionReader().read(text); }

std::string run_passes_on_text(std::string_view text, const std::vector<std::string>& passes,
                               const CompileOptions& options, const Backend* backend) {
  auto graph = parse_graph(text);
  verify(*graph);
  std::vector<Pass> found;
  for (const std::string& name : passes) found.push_back(find_pass(name));
  CompileOptions chosen = options;
  if (chosen.stage_cut.devices != 0) chosen.stage_cut.parts = parts_of(*graph);
  run_passes(*graph, found, {.options = chosen, .backend = backend, .chosen = &chosen});
  return to_text(*graph);
}

}  // namespace aspen
