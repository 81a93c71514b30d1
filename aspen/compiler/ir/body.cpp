#include "aspen/compiler/ir/body.h"

#include <algorithm>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/ir/printer.h"

namespace aspen {
namespace {

class BodyFinder final : public PartialAttrVisitor {
 public:
  using PartialAttrVisitor::operator();
  void operator()(const char*, Body& field) override {
    if (field != nullptr) found.push_back(&graph_of(field));
  }
  std::vector<const Graph*> found;
};

class BodyChanger final : public PartialAttrVisitor {
 public:
  explicit BodyChanger(std::vector<std::unique_ptr<Graph>> bodies) : bodies_(std::move(bodies)) {}
  using PartialAttrVisitor::operator();
  void operator()(const char*, Body& field) override { field = std::move(bodies_.at(next_++)); }

 private:
  std::vector<std::unique_ptr<Graph>> bodies_;
  std::size_t next_ = 0;
};

// The values of a graph, numbered in the order in which they are made.
class Numbering {
 public:
  explicit Numbering(const Graph& graph) : numbers_(static_cast<std::size_t>(graph.num_values()), -1) {
    for (const auto& input : graph.inputs()) add(*input);
    for (const auto& op : graph.ops()) {
      for (const Value* output : op->outputs()) add(*output);
    }
  }
  std::int64_t operator[](const Value* value) const { return value == nullptr ? -1 : numbers_[value->id()]; }

 private:
  void add(const Value& value) { numbers_[value.id()] = next_++; }
  std::vector<std::int64_t> numbers_;  // by id
  std::int64_t next_ = 0;
};

bool are_equal(const Op& a, const Op& b, const Numbering& in_a, const Numbering& in_b) {
  if (&a.def() != &b.def() || a.num_inputs() != b.num_inputs() || a.num_outputs() != b.num_outputs()) return false;
  if (a.no_grad != b.no_grad || a.attrs() != b.attrs()) return false;
  for (std::size_t i = 0; i < a.num_inputs(); ++i) {
    if (in_a[a.input(i)] != in_b[b.input(i)]) return false;
  }
  return true;
}

}  // namespace

const Graph& graph_of(const Body& body) { return static_cast<const Graph&>(*body); }

std::vector<const Graph*> bodies_of(const Attrs& attrs) {
  BodyFinder finder;
  attrs.visited(finder);
  return std::move(finder.found);
}

std::vector<const Graph*> bodies_of(const Op& op) {
  if (!op.def().does_own_graphs()) return {};
  return bodies_of(op.attrs());
}

std::vector<std::string> parts_of(const Attrs& attrs) {
  std::vector<std::string> parts;
  for (const Graph* body : bodies_of(attrs)) {
    for (const auto& op : body->ops()) {
      if (!op->def().is_alias() && !op->def().is_source()) parts.push_back(op->name());
    }
  }
  return parts;
}

bool has_in_bodies(const Op& op, const std::function<bool(const Op&)>& condition) {
  for (const Graph* body : bodies_of(op)) {
    for (const auto& inner : body->ops()) {
      if (condition(*inner)) return true;
    }
  }
  return false;
}

Attrs with_bodies(const Attrs& attrs, std::vector<std::unique_ptr<Graph>> bodies) {
  BodyChanger changer(std::move(bodies));
  return attrs.visited(changer);
}

Value* GraphCopier::operator[](const Value* from) const {
  if (from == nullptr) return nullptr;
  auto found = values_.find(from);
  if (found == values_.end()) throw InternalError("value %{} is copied before it is made", from->id());
  return found->second;
}

Value* GraphCopier::add_input(const Value& like) {
  Value* input = to_.add_input(like.name(), like.type());
  map(&like, input);
  return input;
}

Op* GraphCopier::copy(const Op& op) {
  std::vector<Value*> inputs;
  for (const Value* input : op.inputs()) inputs.push_back((*this)[input]);
  Op* made = to_.add_op(op.def(), std::move(inputs), op.attrs());
  made->take_stamps(op);
  for (std::size_t i = 0; i < op.num_outputs(); ++i) {
    made->output(i)->set_name(op.output(i)->name());
    map(op.output(i), made->output(i));
  }
  return made;
}

std::unique_ptr<Graph> copy_body(const Graph& body) {
  auto graph = std::make_unique<Graph>(body.name());
  GraphCopier copier(*graph);
  for (const auto& input : body.inputs()) copier.add_input(*input);
  for (const auto& op : body.ops()) copier.copy(*op);
  for (const Graph::Output& output : body.outputs()) graph->add_output(output.name, copier[output.value]);
  return graph;
}

std::string Graph::text(std::size_t indent) const { return to_text(*this, indent); }

std::size_t Graph::hash() const {
  const Numbering numbers(*this);
  std::size_t hash = inputs().size();
  const auto add = [&](std::size_t number) { hash = hash * 0x9E3779B97F4A7C15u + number; };
  for (const auto& op : ops_) {
    add(std::hash<std::string>()(op->name()) ^ op->attrs().hash());
    for (const Value* input : op->inputs()) add(static_cast<std::size_t>(numbers[input]));
  }
  for (const Output& output : outputs_) add(static_cast<std::size_t>(numbers[output.value]));
  return hash;
}

bool Graph::equals(const OwnedGraph& owned) const {
  const auto& other = static_cast<const Graph&>(owned);
  if (inputs_.size() != other.inputs_.size() || ops_.size() != other.ops_.size() ||
      outputs_.size() != other.outputs_.size()) {
    return false;
  }
  const Numbering mine(*this), theirs(other);
  const auto have_equal_types = [](const auto& a, const auto& b) { return a->type() == b->type(); };
  if (!std::equal(inputs_.begin(), inputs_.end(), other.inputs_.begin(), have_equal_types)) return false;
  if (!std::equal(ops_.begin(), ops_.end(), other.ops_.begin(),
                  [&](const auto& a, const auto& b) { return are_equal(*a, *b, mine, theirs); })) {
    return false;
  }
  return std::equal(outputs_.begin(), outputs_.end(), other.outputs_.begin(),
                    [&](const Output& a, const Output& b) { return mine[a.value] == theirs[b.value]; });
}

}  // namespace aspen
