#include "aspen/program_file/stored_body.h"

#include <unordered_map>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/program_file/instruction_check.h"
#include "aspen/program_file/place_check.h"

namespace aspen {
namespace {

class Numbers {
 public:
  void add(const Value* value) { numbers_.emplace(value, static_cast<std::int64_t>(numbers_.size())); }
  std::int64_t operator[](const Value* value) const { return value == nullptr ? -1 : numbers_.at(value); }

 private:
  std::unordered_map<const Value*, std::int64_t> numbers_;
};

class BodyMaker {
 public:
  explicit BodyMaker(const StoredBody& stored) : stored_(stored), graph_(std::make_unique<Graph>(stored.name)) {}

  std::unique_ptr<Graph> run() {
    for (const TensorType& type : stored_.inputs) {
      check_type(type);
      values_.push_back(graph_->add_input("", type));
    }
    for (const StoredOp& op : stored_.ops) add(op);
    for (std::int64_t output : stored_.outputs) graph_->add_output("result", value(output));
    return std::move(graph_);
  }

 private:
  void add(const StoredOp& stored) {
    std::vector<Value*> inputs;
    std::vector<TensorType> types;
    for (std::int64_t input : stored.inputs) {
      inputs.push_back(input == -1 ? nullptr : value(input));
      if (input != -1) types.push_back(inputs.back()->type());
    }
    check_attributes(stored.attrs, types);
    Op& op = *graph_->add_op(op_registry().find(stored.op), std::move(inputs), stored.attrs);
    op.location = {.scope = stored.scope, .source = stored.source};
    for (Value* output : op.outputs()) {
      check_type(output->type());
      values_.push_back(output);
    }
  }

  Value* value(std::int64_t number) const {
    check_index(static_cast<std::size_t>(number), values_.size(), "value");
    return values_[static_cast<std::size_t>(number)];
  }

  const StoredBody& stored_;
  std::unique_ptr<Graph> graph_;
  std::vector<Value*> values_;  // by number
};

}  // namespace

StoredBody stored_body(const Graph& body) {
  StoredBody stored{.name = body.name(), .inputs = {}, .ops = {}, .outputs = {}};
  Numbers numbers;
  for (const auto& input : body.inputs()) {
    numbers.add(input.get());
    stored.inputs.push_back(input->type());
  }
  for (const auto& op : body.ops()) {
    StoredOp& made = stored.ops.emplace_back();
    made.op = op->name();
    made.attrs = op->attrs();
    for (const Value* input : op->inputs()) made.inputs.push_back(numbers[input]);
    made.scope = op->location.scope;
    made.source = op->location.source;
    for (const Value* output : op->outputs()) numbers.add(output);
  }
  for (const Graph::Output& output : body.outputs()) stored.outputs.push_back(numbers[output.value]);
  return stored;
}

std::unique_ptr<Graph> make_body(const StoredBody& stored) { return BodyMaker(stored).run(); }

}  // namespace aspen
