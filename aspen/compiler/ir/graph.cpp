#include "aspen/compiler/ir/graph.h"

#include <algorithm>

#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {

const std::string& Op::name() const { return def_->name(); }

Value* Op::in(std::string_view port) const { return inputs_[def_->input_index(port)]; }

Value* Op::out(std::string_view port) const { return outputs_[def_->output_index(port)].get(); }

std::vector<Value*> Op::outputs() const {
  std::vector<Value*> result;
  for (const auto& output : outputs_) result.push_back(output.get());
  return result;
}

bool Op::is_impure() const {
  return def_->is_impure() || has_in_bodies(*this, [](const Op& op) { return op.is_impure(); });
}

bool Op::is_random() const {
  return def_->is_random() || has_in_bodies(*this, [](const Op& op) { return op.is_random(); });
}

bool Op::is_droppable() const {
  return def_->is_droppable() && !has_in_bodies(*this, [](const Op& op) { return !op.is_droppable(); });
}

std::vector<std::pair<std::size_t, std::size_t>> Op::inplace_pairs() const { return def_->inplace_pairs(*this); }

void Op::take_stamps(const Op& other) {
  location = other.location;
  placement = other.placement;
  section = other.section;
  task = other.task;
  backward = other.backward;
  no_grad = other.no_grad;
}

void Op::set_input(std::size_t i, Value* value) {
  is_changed_ = is_changed_ || inputs_[i] == nullptr || value == nullptr || inputs_[i]->type() != value->type();
  if (inputs_[i] != nullptr) inputs_[i]->users_.drop(uses_[i]);
  inputs_[i] = value;
  if (value != nullptr) uses_[i] = value->users_.add({this, i});
}

std::unique_ptr<Value> Graph::new_value(TensorType type) {
  auto value = std::make_unique<Value>();
  value->id_ = next_id_++;
  value->type_ = std::move(type);
  return value;
}

Value* Graph::add_input(std::string name, TensorType type) {
  inputs_.push_back(new_value(std::move(type)));
  overlapped_inputs_.push_back(false);
  wide_inputs_.push_back(false);
  inputs_.back()->set_name(std::move(name));
  return inputs_.back().get();
}

void Graph::widen_input(std::size_t i) {
  inputs_[i]->type_.dtype = DType::kI64;
  wide_inputs_[i] = false;
}

Variable* Graph::add_variable(std::string name, VariableKind kind, TensorType type, bool trainable) {
  if (find_variable(name) != nullptr) throw InternalError("a variable \"{}\" exists already", name);
  auto variable = std::make_unique<Variable>();
  variable->value = new_value(std::move(type));
  variable->value->set_name(name);
  variable->value->variable_ = variable.get();
  variables_by_name_.emplace(name, variable.get());
  variable->name = std::move(name);
  variable->kind = kind;
  variable->trainable = trainable;
  variables_.push_back(std::move(variable));
  return variables_.back().get();
}

void Graph::shard(Variable& variable, std::size_t replicas) {
  variable.numel = variable.value->type().numel();
  variable.shape = variable.value->shape();
  variable.value->type_.shape = {shard_elements(variable.numel, replicas)};
  variable.sharded = true;
}

void Graph::add_output(std::string name, Value* value) {
  value->output_uses_.push_back(outputs_.size());
  outputs_.push_back({.name = std::move(name), .value = value});
}

void Graph::set_output(std::size_t i, Value* value) {
  auto& uses = outputs_[i].value->output_uses_;
  uses.erase(std::next(std::find(uses.rbegin(), uses.rend(), i)).base());
  outputs_[i].value = value;
  value->output_uses_.push_back(i);
}

Op* Graph::add_op(const OpDef& def, std::vector<Value*> inputs, Attrs attrs, Op* before) {
  auto op = std::make_unique<Op>();
  op->def_ = &def;
  op->attrs_ = std::move(attrs);
  const auto& ports = def.input_ports();
  while (inputs.size() < ports.size() && ports[inputs.size()].optional) inputs.push_back(nullptr);
  std::vector<TensorType> types = def.infer(inputs, op->attrs_);
  for (std::size_t i = 0; i < types.size(); ++i) {
    auto value = new_value(std::move(types[i]));
    value->producer_ = op.get();
    value->index_ = i;
    op->outputs_.push_back(std::move(value));
  }
  op->inputs_.assign(inputs.size(), nullptr);
  op->uses_.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) op->set_input(i, inputs[i]);
  op->is_changed_ = false;
  auto place = before != nullptr ? before->self_ : ops_.end();
  auto inserted = ops_.insert(place, std::move(op));
  (*inserted)->self_ = inserted;
  return inserted->get();
}

void Graph::erase(Op* op) { release(op); }

std::unique_ptr<Op> Graph::release(Op* op) {
  for (const auto& output : op->outputs_) {
    if (output->is_used()) {
      throw InternalError("erasing {} while value %{} is in use", op->name(), output->id());
    }
  }
  for (std::size_t i = 0; i < op->inputs_.size(); ++i) op->set_input(i, nullptr);
  std::unique_ptr<Op> released = std::move(*op->self_);
  ops_.erase(op->self_);
  return released;
}

void Graph::move_before(Op* op, Op* before) {
  ops_.splice(before != nullptr ? before->self_ : ops_.end(), ops_, op->self_);
}

void Graph::replace_uses(Value* from, Value* to) {
  if (from == to) return;
  while (!from->users_.empty()) {
    const Use use = *from->users_.begin();
    use.op->set_input(use.input, to);
  }
  if (from->is_gradient()) {
    for (const auto& variable : variables_) {
      if (variable->gradient_ == from) set_gradient(*variable, to);
    }
  }
  while (from->is_output()) set_output(from->output_uses_.back(), to);
}

void Graph::set_gradient(Variable& variable, Value* gradient) {
  if (variable.gradient_ != nullptr) --variable.gradient_->gradient_uses_;
  variable.gradient_ = gradient;
  if (gradient != nullptr) ++gradient->gradient_uses_;
}

Variable* Graph::find_variable(std::string_view name) const {
  auto found = variables_by_name_.find(name);
  return found == variables_by_name_.end() ? nullptr : found->second;
}

}  // namespace aspen
