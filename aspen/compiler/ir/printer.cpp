#include "aspen/compiler/ir/printer.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <vector>

#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

bool is_number(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

class Printer {
 public:
  explicit Printer(const Graph& graph, std::size_t indent = 0)
      : graph_(graph), margin_(indent, ' '), labels_(graph.num_values()) {
    label_values();
  }

  std::string run() {
    std::string inputs;
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      inputs += separated(inputs, definition(graph_.inputs()[i].get()));
      if (graph_.is_overlapped_input(i)) inputs += " overlapped";
      if (graph_.is_wide_input(i)) inputs += " wide";
    }
    text_ = fmt::format("graph @{}({}) {{\n", quoted_unless_plain(graph_.name()), inputs);
    for (const auto& variable : graph_.variables()) print(*variable);
    print_lanes_and_tasks();
    for (const auto& op : graph_.ops()) print(*op);
    print_gradients();
    std::string outputs;
    for (const auto& output : graph_.outputs()) {
      outputs += separated(outputs, fmt::format("{}: {}", quoted_unless_plain(output.name), label(output.value)));
      if (output.overlapped) outputs += " overlapped";
    }
    begin_line();
    text_ += outputs.empty() ? "return\n" : fmt::format("return {}\n", outputs);
    text_ += margin_ + "}";
    return std::move(text_);
  }

 private:
  // Variables keep their names exactly; a value whose name is taken gets a number behind it.
  void label_values() {
    for (const auto& variable : graph_.variables()) add_label(variable->value.get());
    for (const auto& input : graph_.inputs()) add_label(input.get());
    std::int64_t next = 0;
    for (const auto& op : graph_.ops()) {
      for (const Value* output : op->outputs()) {
        if (output->name().empty()) {
          labels_[output->id()] = fmt::format("%{}", next++);
        } else {
          add_label(output);
        }
      }
    }
  }

  void add_label(const Value* value) {
    const std::string own = value->name().empty() ? "input" : value->name();
    std::string name = own;
    for (int copy = 2; !taken_.insert(name).second; ++copy) name = fmt::format("{}#{}", own, copy);
    labels_[value->id()] = '%' + (is_number(name) ? quoted(name) : quoted_unless_plain(name));
  }

  static std::string separated(const std::string& before, const std::string& item) {
    return before.empty() ? item : ", " + item;
  }

  const std::string& label(const Value* value) const { return labels_[value->id()]; }

  std::string definition(const Value* value) const {
    return fmt::format("{}: {}", label(value), to_string(value->type()));
  }

  void begin_line() { text_ += margin_ + "  "; }

  void print(const Variable& variable) {
    begin_line();
    text_ += fmt::format("variable {} {}", definition(variable.value.get()), name_of(variable.kind));
    if (variable.trainable) text_ += " trainable";
    if (variable.initial != 0) text_ += fmt::format(" initial {}", variable.initial);
    if (variable.off_device) text_ += " off_device";
    if (variable.reduced) text_ += " reduced";
    if (variable.sharded) text_ += " sharded";
    if (variable.gathered) text_ += " gathered";
    print_number("numel", variable.numel, 0);
    if (variable.grouping != ReplicaGrouping{}) print(variable.grouping);
    text_ += '\n';
  }

  void print(const ReplicaGrouping& grouping) {
    text_ += fmt::format(" group {}", name_of(grouping.kind));
    if (has_size(grouping.kind)) text_ += fmt::format(" {}", grouping.size);
    if (grouping.returns_all) text_ += " returns_all";
  }

  void print_gradients() {
    for (const auto& variable : graph_.variables()) {
      if (variable->gradient() == nullptr) continue;
      begin_line();
      text_ += fmt::format("gradient {}: {}\n", label(variable->value.get()), label(variable->gradient()));
    }
  }

  void print_lanes_and_tasks() {
    for (std::size_t i = 0; i < graph_.lanes.size(); ++i) {
      const GraphLane& lane = graph_.lanes[i];
      begin_line();
      text_ += fmt::format("lane {}", i);
      print_number("device", lane.device, 0);
      print_number("depth", lane.depth, 1);
      text_ += '\n';
    }
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      const GraphTask& task = graph_.tasks[i];
      begin_line();
      text_ += fmt::format("task {} {}", i, quoted(task.name));
      print_number("device", task.device, 0);
      print_number("lane", task.lane, 0);
      print_number("stage", task.stage, 0);
      print_number("phase", task.phase, 0);
      if (task.cost != 1) text_ += fmt::format(" cost {}", task.cost);
      if (task.section == Section::kUpdate) text_ += " update";
      if (task.moves) text_ += " moves";
      text_ += '\n';
    }
  }

  void print_number(std::string_view word, std::int64_t number, std::int64_t default_number) {
    if (number != default_number) text_ += fmt::format(" {} {}", word, number);
  }

  void print(const Op& op) {
    std::string results, inputs;
    for (const Value* output : op.outputs()) results += separated(results, definition(output));
    for (const Value* input : op.inputs()) inputs += separated(inputs, input == nullptr ? "_" : label(input));
    begin_line();
    text_ += fmt::format("{}{}{}({})", results, results.empty() ? "" : " = ", op.name(), inputs);
    std::string attrs = op.attrs().to_string(margin_.size() + 2);
    if (!attrs.empty()) text_ += ' ' + attrs;
    print_details(op);
    text_ += '\n';
  }

  void print_details(const Op& op) {
    if (!op.location.scope.empty()) text_ += " scope " + quoted(op.location.scope);
    if (!op.location.source.empty()) text_ += " at " + quoted(op.location.source);
    print_number("device", op.placement.device, 0);
    print_number("stage", op.placement.stage, 0);
    print_number("phase", op.placement.phase, 0);
    print_number("task", op.task, -1);
    if (op.section == Section::kUpdate) text_ += " update";
    if (op.backward) text_ += " backward";
    if (op.no_grad) text_ += " no_grad";
  }

  const Graph& graph_;
  std::string margin_;
  std::vector<std::string> labels_;  // by value id
  std::set<std::string> taken_;
  std::string text_;
};

}  // namespace

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_.$/#+-").find(c) != std::string_view::npos;
}

std::string quoted_unless_plain(const std::string& word) {
  bool is_plain =
      !word.empty() && word != "_" && word[0] != '/' && std::all_of(word.begin(), word.end(), is_word_character);
  return is_plain ? word : quoted(word);
}

std::string to_text(const Graph& graph) { return Printer(graph).run() + '\n'; }

std::string to_text(const Graph& graph, std::size_t indent) { return Printer(graph, indent).run(); }

}  // namespace aspen
