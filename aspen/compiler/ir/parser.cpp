#include "aspen/compiler/ir/parser.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "aspen/compiler/ir/attr_parser.h"
#include "aspen/compiler/ir/lexer.h"

namespace aspen {
namespace {

class Parser {
 public:
  Parser(Lexer& lexer, const OpRegistry& ops) : lexer_(lexer), ops_(ops) {}

  std::unique_ptr<Graph> run() {
    if (!lexer_.accept_word("graph")) lexer_.fail_expected("\"graph\"");
    lexer_.expect("@");
    graph_ = std::make_unique<Graph>(lexer_.word("the name of the graph"));
    parse_inputs();
    lexer_.expect("{");
    while (lexer_.accept_word("variable")) parse_variable();
    while (lexer_.accept_word("lane")) parse_lane();
    while (lexer_.accept_word("task")) parse_task();
    while (!lexer_.peek_word("return") && !lexer_.peek_word("gradient")) parse_op();
    while (lexer_.accept_word("gradient")) parse_gradient();
    parse_return();
    lexer_.expect("}");
    return std::move(graph_);
  }

 private:
  struct Definition {
    std::string label;  // as written, quotes included: what later lines refer to
    std::string name;   // empty for a numbered value
    TensorType type;
    std::size_t position;
  };

  void parse_inputs() {
    lexer_.expect("(");
    while (!lexer_.accept(")")) {
      Definition input = definition();
      define(input, graph_->add_input(input.name, input.type));
      if (lexer_.accept_word("overlapped")) graph_->overlap_input(graph_->inputs().size() - 1);
      if (lexer_.accept_word("wide")) graph_->mark_wide_input(graph_->inputs().size() - 1);
      if (!lexer_.accept(",") && !lexer_.peek(")")) lexer_.fail_expected("\",\" or \")\"");
    }
  }

  // variable %w: f32[10, 5] parameter trainable reduced group consecutive 2
  void parse_variable() {
    Definition written = definition();
    Variable* variable = graph_->add_variable(written.name, kind(), written.type);
    define(written, variable->value.get());
    while (true) {
      if (lexer_.accept_word("trainable"))
        variable->trainable = true;
      else if (lexer_.accept_word("initial"))
        variable->initial = lexer_.number();
      else if (lexer_.accept_word("off_device"))
        variable->off_device = true;
      else if (lexer_.accept_word("reduced"))
        variable->reduced = true;
      else if (lexer_.accept_word("sharded"))
        variable->sharded = true;
      else if (lexer_.accept_word("gathered"))
        variable->gathered = true;
      else if (lexer_.accept_word("numel"))
        variable->numel = lexer_.integer();
      else if (lexer_.accept_word("group"))
        variable->grouping = grouping();
      else
        return;
    }
  }

  VariableKind kind() {
    return one_of("the kind of the variable",
                  std::array{VariableKind::kParameter, VariableKind::kBuffer, VariableKind::kOptimizerState,
                             VariableKind::kAccumulator, VariableKind::kSetting});
  }

  ReplicaGrouping grouping() {
    using Kind = ReplicaGrouping::Kind;
    ReplicaGrouping result;
    result.kind =
        one_of("the kind of the group", std::array{Kind::kAll, Kind::kConsecutive, Kind::kOrthogonal, Kind::kNone});
    if (has_size(result.kind)) result.size = static_cast<std::size_t>(lexer_.integer());
    result.returns_all = lexer_.accept_word("returns_all");
    return result;
  }

  template <class Kind, std::size_t N>
  Kind one_of(std::string_view what, const std::array<Kind, N>& kinds) {
    std::string names;
    for (Kind kind : kinds) {
      if (lexer_.accept_word(name_of(kind))) return kind;
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(kind));
    }
    lexer_.fail_expected(fmt::format("{} ({})", what, names));
  }

  // lane 1 device 1 depth 3
  void parse_lane() {
    expect_number("lane", graph_->lanes.size());
    GraphLane lane;
    while (true) {
      if (lexer_.accept_word("device"))
        lane.device = lexer_.integer();
      else if (lexer_.accept_word("depth"))
        lane.depth = lexer_.integer();
      else
        break;
    }
    graph_->lanes.push_back(lane);
  }

  // task 2 "backward of stage 0" device 1 lane 1 stage 1 cost 2 update
  void parse_task() {
    expect_number("task", graph_->tasks.size());
    GraphTask task{.name = lexer_.quoted()};
    while (true) {
      if (lexer_.accept_word("device"))
        task.device = lexer_.integer();
      else if (lexer_.accept_word("lane"))
        task.lane = lexer_.integer();
      else if (lexer_.accept_word("stage"))
        task.stage = lexer_.integer();
      else if (lexer_.accept_word("phase"))
        task.phase = lexer_.integer();
      else if (lexer_.accept_word("cost"))
        task.cost = lexer_.number();
      else if (lexer_.accept_word("update"))
        task.section = Section::kUpdate;
      else if (lexer_.accept_word("moves"))
        task.moves = true;
      else
        break;
    }
    graph_->tasks.push_back(std::move(task));
  }

  // The number is there for the reader; lanes and tasks are listed in order.
  void expect_number(std::string_view what, std::size_t next) {
    std::size_t start = lexer_.next_position();
    std::int64_t number = lexer_.integer();
    if (number == static_cast<std::int64_t>(next)) return;
    lexer_.fail_at(start, fmt::format("{} {} is out of order; the next is {} {}.", what, number, what, next));
  }

  // [%3: f32[16, 10], ... =] dot(%x, %w) {...} details
  void parse_op() {
    std::vector<Definition> results;
    if (lexer_.peek("%")) {
      do results.push_back(definition());
      while (lexer_.accept(","));
      lexer_.expect("=");
    }
    std::size_t start = lexer_.next_position();
    std::string name = lexer_.word("an op or \"return\"");
    const OpDef* def = nullptr;
    Op* op = nullptr;
    try {
      def = &ops_.find(name);
    } catch (const UserError& e) {
      lexer_.fail_at(start, e.what());
    }
    std::vector<Value*> inputs = parse_operands();
    Attrs attrs = parse_attrs(lexer_, *def, ops_);
    try {
      op = graph_->add_op(*def, std::move(inputs), std::move(attrs));
    } catch (const Error& e) {
      lexer_.fail_at(start, e.what());
    }
    define_results(results, *op, start);
    parse_details(*op);
  }

  std::vector<Value*> parse_operands() {
    std::vector<Value*> result;
    lexer_.expect("(");
    while (!lexer_.accept(")")) {
      result.push_back(lexer_.accept_word("_") ? nullptr : operand());
      if (!lexer_.accept(",") && !lexer_.peek(")")) lexer_.fail_expected("\",\" or \")\"");
    }
    return result;
  }

  void define_results(const std::vector<Definition>& results, Op& op, std::size_t start) {
    if (results.size() != op.num_outputs()) {
      lexer_.fail_at(start,
                     fmt::format("op {} gives {} results; {} are named.", op.name(), op.num_outputs(), results.size()));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      Value* output = op.output(i);
      if (output->type() != results[i].type) {
        lexer_.fail_at(results[i].position,
                       fmt::format("%{} is written as {}; op {} gives {}.", results[i].label,
                                   to_string(results[i].type), op.name(), to_string(output->type())));
      }
      output->set_name(results[i].name);
      define(results[i], output);
    }
  }

  void parse_details(Op& op) {
    while (true) {
      if (lexer_.accept_word("scope"))
        op.location.scope = lexer_.quoted();
      else if (lexer_.accept_word("at"))
        op.location.source = lexer_.quoted();
      else if (lexer_.accept_word("device"))
        op.placement.device = lexer_.integer();
      else if (lexer_.accept_word("stage"))
        op.placement.stage = lexer_.integer();
      else if (lexer_.accept_word("phase"))
        op.placement.phase = lexer_.integer();
      else if (lexer_.accept_word("task"))
        op.task = lexer_.integer();
      else if (lexer_.accept_word("update"))
        op.section = Section::kUpdate;
      else if (lexer_.accept_word("backward"))
        op.backward = true;
      else if (lexer_.accept_word("no_grad"))
        op.no_grad = true;
      else
        return;
    }
  }

  // gradient %w: %3
  void parse_gradient() {
    std::size_t start = lexer_.next_position();
    Variable* variable = operand()->variable();
    if (variable == nullptr) lexer_.fail_at(start, "only variables have gradients.");
    lexer_.expect(":");
    graph_->set_gradient(*variable, operand());
  }

  void parse_return() {
    if (!lexer_.accept_word("return")) lexer_.fail_expected("\"gradient\" or \"return\"");
    while (!lexer_.peek("}")) {
      std::string name = lexer_.word("the name of an output");
      lexer_.expect(":");
      graph_->add_output(name, operand());
      if (lexer_.accept_word("overlapped")) graph_->overlap_output(graph_->outputs().size() - 1);
      if (!lexer_.accept(",") && !lexer_.peek("}")) lexer_.fail_expected("\",\" or \"}\"");
    }
  }

  static bool is_number(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
  }

  // %3 or %name or %"any name". A name that looks like a number keeps its opening quote, to tell the two apart.
  std::string label() {
    lexer_.expect("%");
    if (!lexer_.peek("\"")) return lexer_.word("the name of a value");
    std::string name = lexer_.quoted();
    return is_number(name) ? '"' + name : name;
  }

  Definition definition() {
    std::size_t start = lexer_.next_position();
    std::string written = label();
    lexer_.expect(":");
    std::string name = is_number(written) ? "" : written[0] == '"' ? written.substr(1) : written;
    return {written, std::move(name), type(), start};
  }

  TensorType type() {
    std::size_t start = lexer_.next_position();
    TensorType result;
    try {
      result.dtype = dtype_from_name(lexer_.word("an element type"));
    } catch (const UserError& e) {
      lexer_.fail_at(start, e.what());
    }
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      if (!result.shape.empty()) lexer_.expect(",");
      result.shape.push_back(lexer_.integer());
    }
    return result;
  }

  void define(const Definition& written, Value* value) {
    if (!values_.emplace(written.label, value).second) {
      lexer_.fail_at(written.position, fmt::format("%{} is defined twice.", written.label));
    }
  }

  Value* operand() {
    std::size_t start = lexer_.next_position();
    std::string written = label();
    auto found = values_.find(written);
    if (found != values_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [name, value] : values_) known.push_back("%" + name);
    lexer_.fail_at(start, fmt::format("%{} is not defined above{}.", written,
                                      known.empty() ? "" : "; close matches: " + near_matches("%" + written, known)));
  }

  Lexer& lexer_;
  const OpRegistry& ops_;
  std::unique_ptr<Graph> graph_;
  std::map<std::string, Value*, std::less<>> values_;
};

}  // namespace

std::unique_ptr<Graph> parse_graph(std::string_view text, const OpRegistry& ops) {
  Lexer lexer(text);
  std::unique_ptr<Graph> graph = parse_graph(lexer, ops);
  if (!lexer.at_end()) lexer.fail_expected("the end of the text");
  return graph;
}

std::unique_ptr<Graph> parse_graph(Lexer& lexer, const OpRegistry& ops) { return Parser(lexer, ops).run(); }

}  // namespace aspen
