#include "poptorch/capture/region.h"

#include <algorithm>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/rewrite.h"

namespace poptorch {
namespace {

using aspen::Op;
using aspen::Value;

// Where tensors that share memory are derived from each other; see alias.h.
bool is_view(const Op& op) {
  return aspen::only_moves(op) || op.is("detach") || op.is("graft") || op.is("overwrite") || op.is("scatter_rows");
}

}  // namespace

Region::Region(Recorder& recorder, std::string op, bool runs_always)
    : recorder_(recorder), op_(std::move(op)), runs_always_(runs_always),
      first_write_(recorder.capture().writes.size()), first_move_(recorder.capture().moves),
      first_mark_(recorder.overlap_marks.size()) {
  const auto& ops = recorder.b.graph().ops();
  if (!ops.empty()) before_ = ops.back().get();
}

Region::Tensors Region::begin(const Tensors& tensors) {
  recorder_.open_region();
  return recorder_.record(op_, tensors, [&] {
    Tensors inside;
    for (const at::Tensor& tensor : tensors) {
      Op* input = recorder_.b.emit("body_input", {recorder_.value_of(tensor)});
      // Whether a gradient flows is known only when the body is: as if it did.
      if (recorder_.training() && aspen::is_floating(input->output()->dtype())) {
        recorder_.capture().paths.begin_at(*input->output());
      }
      inputs_.push_back(input);
      inside.push_back(recorder_.wrap(input->output(), tensor.scalar_type()));
    }
    return inside;
  });
}

std::vector<Value*> Region::end(const Tensors& results) {
  recorder_.close_region();
  std::vector<Value*> values;
  recorder_.record(op_, results, [&] {
    for (const at::Tensor& tensor : results) values.push_back(recorder_.value_of(tensor));
    return Tensors{};
  });
  const auto& ops = recorder_.b.graph().ops();
  inside_.insert(inputs_.begin(), inputs_.end());
  auto place = ops.end();
  while (place != ops.begin() && std::prev(place)->get() != before_) --place;
  for (; place != ops.end(); ++place) {
    Op* op = place->get();
    if (recorder_.is_retired(op) || is_inside(op)) continue;
    if (stays_outside(*op)) {
      if (op->def().is_source() || !runs_always_) copied_.insert(op);
    } else {
      inside_.insert(op);
      ops_.push_back(op);
    }
  }
  std::unordered_set<const TracedStorage*> seen;
  const auto& writes = recorder_.capture().writes;
  for (std::size_t i = first_write_; i < writes.size(); ++i) {
    const Value* before = writes[i].before;
    const bool is_outside = before->producer() == nullptr || !is_inside(before->producer());
    if (is_outside && seen.insert(writes[i].storage.get()).second) writes_.push_back(writes[i]);
  }
  obstacle_ = find_obstacle();
  return values;
}

bool Region::stays_outside(const Op& op) const {
  const bool reads_inside = std::any_of(op.inputs().begin(), op.inputs().end(), [&](const Value* input) {
    return input != nullptr && input->producer() != nullptr && is_inside(input->producer());
  });
  if (reads_inside || !op.is_function()) return false;
  return runs_always_ || op.def().is_source() || is_view(op);
}

std::string Region::find_obstacle() const {
  if (recorder_.is_in_backward()) return "it is part of a backward pass of the model's own";
  if (recorder_.capture().moves != first_move_) return "it gives a tensor of the model other memory";
  if (recorder_.overlap_marks.size() != first_mark_) return "it marks inputs or outputs to be overlapped";
  for (const Op* op : ops_) {
    if (op->is("custom_gradient")) return "it calls a function with a backward pass of its own";
    if (op->is("loss")) return "it has a loss in it";
    if (op->placement != ops_.front()->placement) return "it has ops of several blocks in it";
  }
  if (recorder_.autograd().has_hooks([&](const Value* value) { return is_inside(value->producer()); })) {
    return "it puts a hook on a gradient";
  }
  return "";
}

aspen::Placement Region::placement() const { return ops_.empty() ? recorder_.b.placement : ops_.front()->placement; }

std::size_t Region::Operands::place_of(Value* value) {
  auto [found, is_new] = places.emplace(value, values.size());
  if (is_new) values.push_back(value);
  return found->second;
}

// Calls visit(value) for the values outside that ops inside, and those made again there, read.
void Region::for_each_outside(const std::vector<Value*>& results, const Visit& visit) const {
  std::unordered_set<const Op*> seen;
  const std::function<void(Value*)> reach = [&](Value* value) {
    if (value == nullptr) return;
    const Op* producer = value->producer();
    if (is_inside(producer)) return;
    if (producer == nullptr || copied_.count(producer) == 0) return visit(value);
    if (!seen.insert(producer).second) return;
    for (Value* input : producer->inputs()) reach(input);
  };
  for (const Op* op : ops_) {
    for (Value* input : op->inputs()) reach(input);
  }
  for (Value* result : results) reach(result);
}

void Region::find_operands(const std::vector<Value*>& results, Operands& operands) const {
  for_each_outside(results, [&](Value* value) { operands.place_of(value); });
}

std::unique_ptr<aspen::Graph> Region::cut(const std::vector<Value*>& results, const Operands& operands) const {
  auto graph = std::make_unique<aspen::Graph>("body");
  aspen::GraphCopier copier(*graph);
  for (const Op* input : inputs_) copier.map(input->output(), graph->add_input("", input->output()->type()));
  for (const Value* value : operands.values) copier.add_input(*value);
  const std::function<void(const Value*)> bring = [&](const Value* value) {
    if (value == nullptr || copier.has(value)) return;
    for (const Value* input : value->producer()->inputs()) bring(input);
    copier.copy(*value->producer());
  };
  for (const Op* op : ops_) {
    for (const Value* input : op->inputs()) bring(input);
    copier.copy(*op);
  }
  for (const Value* result : results) {
    bring(result);
    graph->add_output("result", copier[result]);
  }
  return graph;
}

void Region::retire() const {
  for (Op* op : inputs_) recorder_.retire(op);
  for (Op* op : ops_) recorder_.retire(op);
}

}  // namespace poptorch
