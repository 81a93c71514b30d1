#include "aspen/compiler/autodiff/body_gradients.h"

#include <algorithm>
#include <unordered_map>

#include "aspen/compiler/autodiff/body_derivative.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"
#include "aspen/ops/control/control.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/reduce/reduce.h"

namespace aspen {
namespace {

using Flow = GradientContext::Flow;
using Kind = BodyDerivative::Operand::Kind;

// Puts an op with other attributes, which may return more, in the place of one.
Op* replaced(Graph& graph, Op& op, Attrs attrs) {
  Op* made = graph.add_op(op.def(), op.inputs(), std::move(attrs), &op);
  made->take_stamps(op);
  for (std::size_t i = 0; i < op.num_outputs(); ++i) replace_value(graph, op.output(i), made->output(i));
  graph.erase(&op);
  return made;
}

// -- loops ------------------------------------------------------------------------------------------------------------
// The graph a backward loop repeats, while it grows. Its inputs are in the order the loop wants: those it carries,
// rows, those that are the same in all turns.
class LoopGradient {
 public:
  LoopGradient(Builder& b, Op& op, const std::vector<Value*>& arriving, const std::vector<bool>& needed)
      : b_(b), op_(op), loop_(op.attrs<LoopAttrs>()), body_(graph_of(loop_.body)),
        num_carried_(static_cast<std::size_t>(loop_.carried)), num_sliced_(static_cast<std::size_t>(loop_.sliced)),
        arriving_(arriving), needed_(needed) {}

  BodyGradients run() {
    if (loop_.count == 0) return without_turns();
    derive();
    LoopAttrs forward = loop_;
    forward.body = std::move(derivative_.forward);
    Op* op = replaced(b_.graph(), op_, Attrs::of(std::move(forward)));
    build(*op);
    return {op, answers()};
  }

 private:
  bool is_carried(std::size_t input) const { return input < num_carried_; }
  bool is_fixed(std::size_t input) const { return input >= num_carried_ + num_sliced_; }

  BodyGradients without_turns() {
    std::vector<GradientAnswer> result(op_.num_inputs(), {Flow::kNone, nullptr});
    for (std::size_t i = 0; i < num_carried_; ++i) {
      if (arriving_[i] != nullptr) result[i] = {Flow::kGradient, arriving_[i]};
    }
    return {&op_, std::move(result)};
  }

  // A carried value is on a path from a parameter if it begins there or any turn puts it there.
  std::vector<bool> wanted() const {
    std::vector<bool> result = needed_;
    bool has_grown = true;
    while (has_grown) {
      has_grown = false;
      GradientPaths paths;
      for (std::size_t i = 0; i < result.size(); ++i) {
        if (result[i]) paths.begin_at(*body_.inputs()[i]);
      }
      for (std::size_t i = 0; i < num_carried_; ++i) {
        if (result[i] || !paths.wants(body_.outputs()[i].value)) continue;
        has_grown = result[i] = true;
      }
    }
    return result;
  }

  // A gradient arrives at a carried value from outside, or from a later turn.
  void derive() {
    const std::vector<bool> wanted_inputs = wanted();
    std::vector<bool> passing(body_.inputs().size(), false);
    for (std::size_t i = 0; i < num_carried_; ++i) passing[i] = true;
    arrives_.assign(body_.outputs().size(), false);
    for (std::size_t i = 0; i < arrives_.size(); ++i) {
      arrives_[i] = arriving_[i] != nullptr && (!is_carried(i) || wanted_inputs[i]);
    }
    bool has_grown = true;
    while (has_grown) {
      has_grown = false;
      derivative_ = differentiate_body(body_, wanted_inputs, arrives_, passing);
      for (std::size_t i = 0; i < num_carried_; ++i) {
        if (arrives_[i] || derivative_.flows[i] != Flow::kGradient) continue;
        has_grown = arrives_[i] = true;
      }
    }
  }

  void build(const Op& forward) {
    const Graph& backward = *derivative_.backward;
    GraphCopier copier(*turn_);
    for (std::size_t i = 0; i < num_carried_; ++i) {
      if (!arrives_[i]) continue;
      place_of_carried_[i] = operands_.size();
      Value* seed = arriving_[i] != nullptr ? arriving_[i] : build::full_like(b_, op_input(forward, i), 0);
      operands_.push_back(seed);
      carried_inputs_[i] = turn_->add_input("", seed->type());
    }
    find_sums();
    for (const Sum& sum : sums_) {
      if (!sum.in_loop.empty()) add_sum(forward, sum);
    }
    num_backward_carried_ = operands_.size();
    // Rows, then what is the same in all turns.
    for (bool is_row : {true, false}) {
      for (std::size_t i = 0; i < derivative_.operands.size(); ++i) {
        const auto& [kind, index] = derivative_.operands[i];
        const Value* input = backward.inputs()[i].get();
        if (kind == Kind::kArriving && is_carried(index)) {
          copier.map(input, carried_inputs_.at(index));
          continue;
        }
        if (is_row != !(kind == Kind::kInput && is_fixed(index))) continue;
        Value* outside = outside_value(forward, kind, index);
        operands_.push_back(outside);
        copier.add_input(*input);
        if (is_row) rows_.emplace(input, outside);
      }
      if (is_row) num_rows_ = operands_.size() - num_backward_carried_;
    }
    for (const auto& op : backward.ops()) copier.copy(*op);
    return_all(copier);
    LoopAttrs attrs{.count = loop_.count,
                    .carried = static_cast<std::int64_t>(num_backward_carried_),
                    .sliced = static_cast<std::int64_t>(num_rows_),
                    .reverse = !loop_.reverse,
                    .body = std::move(turn_)};
    made_ = b_.emit("loop", operands_, std::move(attrs));
  }

  static Value* op_input(const Op& op, std::size_t i) { return op.input(i); }

  Value* outside_value(const Op& forward, Kind kind, std::size_t index) const {
    switch (kind) {
      case Kind::kSaved: return forward.output(body_.outputs().size() + index);
      case Kind::kInput: return forward.input(index);
      case Kind::kArriving: break;
    }
    return arriving_[index];
  }

  // -- sums over turns
  // Of the gradient by a fixed input: the shares of a turn that are added up in the loop, and those for which an op
  // outside does it.
  struct Sum {
    std::size_t input = 0;
    std::vector<Value*> in_loop;     // in backward
    std::vector<const Op*> outside;  // ops of backward that are done for all turns at once instead
    std::size_t place = 0;           // among what the loop carries
    Value* so_far = nullptr;         // in the turn
  };

  // The values an addition adds up, itself unless it is one of two values like its result.
  static void add_shares(Value* value, std::vector<Value*>& shares) {
    const Op* op = value->producer();
    const bool is_plain = op != nullptr && op->is("add") && op->backward && op->input(0)->type() == value->type() &&
                          op->input(1)->type() == value->type();
    if (!is_plain) {
      shares.push_back(value);
      return;
    }
    add_shares(op->input(0), shares);
    add_shares(op->input(1), shares);
  }

  // Sums over the rows of matrices: rows of all turns can lie below each other.
  static bool is_sum(const Op* op) {
    if (op == nullptr || !op->backward) return false;
    if (op->is("reduce_sum")) return true;
    if (!op->is("dot") || op->input(0)->rank() != 2 || op->input(1)->rank() != 2) return false;
    const auto& attrs = op->attrs<DotAttrs>();
    return attrs.transpose_a && !attrs.transpose_b;
  }

  void find_sums() {
    for (std::size_t i = num_carried_ + num_sliced_; i < body_.inputs().size(); ++i) {
      if (derivative_.flows[i] != Flow::kGradient) continue;
      Sum& sum = sums_.emplace_back();
      sum.input = i;
      std::vector<Value*> shares;
      add_shares(derivative_.gradients[i], shares);
      for (Value* share : shares) {
        if (is_sum(share->producer())) {
          sum.outside.push_back(share->producer());
        } else {
          sum.in_loop.push_back(share);
        }
      }
    }
  }

  void add_sum(const Op& forward, const Sum& found) {
    Sum& sum = sums_[static_cast<std::size_t>(&found - sums_.data())];
    sum.place = operands_.size();
    operands_.push_back(build::full_like(b_, op_input(forward, sum.input), 0));
    sum.so_far = turn_->add_input("", operands_.back()->type());
  }

  // -- results of a turn
  void return_all(const GraphCopier& copier) {
    Builder inner(*turn_);
    inner.backward = true;
    inner.location = b_.location;
    for (std::size_t i = 0; i < num_carried_; ++i) {
      if (!arrives_[i]) continue;
      const bool flows = derivative_.flows[i] == Flow::kGradient;
      turn_->add_output("gradient",
                        flows ? copier[derivative_.gradients[i]] : build::full_like(inner, carried_inputs_[i], 0));
    }
    for (const Sum& sum : sums_) {
      if (sum.in_loop.empty()) continue;
      Value* total = sum.so_far;
      for (const Value* share : sum.in_loop) total = build::add(inner, total, copier[share]);
      turn_->add_output("sum", total);
    }
    for (std::size_t i = num_carried_; i < num_carried_ + num_sliced_; ++i) {
      if (derivative_.flows[i] == Flow::kGradient) stack(derivative_.gradients[i], copier);
    }
    for (const Sum& sum : sums_) {
      for (const Op* op : sum.outside) {
        for (const Value* input : op->inputs()) stack(input, copier);
      }
    }
  }

  // Returns a value of each turn, unless all of them are at hand outside.
  void stack(const Value* value, const GraphCopier& copier) {
    if (rows_.count(value) != 0 || stacks_.count(value) != 0) return;
    stacks_.emplace(value, turn_->outputs().size());
    turn_->add_output("row", copier[value]);
  }

  Value* stacked(const Value* value) const {
    auto row = rows_.find(value);
    return row != rows_.end() ? row->second : made_->output(stacks_.at(value));
  }

  // -- outside
  // A stack of matrices as one of all their rows.
  Value* as_rows(Value* stack) {
    const Shape& shape = stack->shape();
    return build::reshape(b_, stack, {shape[0] * shape[1], shape[2]});
  }

  Value* over_all_turns(const Op& op) {
    if (op.is("dot")) {
      return build::dot(b_, as_rows(stacked(op.input(0))), as_rows(stacked(op.input(1))), true, false);
    }
    std::vector<std::int64_t> axes{0};
    for (std::int64_t axis : op.attrs<ReduceAttrs>().axes) axes.push_back(axis + 1);
    Value* sum = build::reduce_sum(b_, stacked(op.input(0)), axes);
    return build::reshape(b_, sum, op.output()->shape());
  }

  Value* total_of(const Sum& sum) {
    Value* total = sum.in_loop.empty() ? nullptr : made_->output(sum.place);
    for (const Op* op : sum.outside) {
      Value* share = over_all_turns(*op);
      total = total == nullptr ? share : build::add(b_, total, share);
    }
    return total;
  }

  std::vector<GradientAnswer> answers() {
    std::vector<GradientAnswer> result(body_.inputs().size(), {Flow::kNone, nullptr});
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i].flow = derivative_.flows[i];
      if (result[i].flow != Flow::kGradient) continue;
      if (is_carried(i)) {
        result[i].gradient = made_->output(place_of_carried_.at(i));
      } else if (!is_fixed(i)) {
        result[i].gradient = stacked(derivative_.gradients[i]);
      }
    }
    for (const Sum& sum : sums_) result[sum.input].gradient = total_of(sum);
    return result;
  }

  Builder& b_;
  Op& op_;
  const LoopAttrs loop_;  // owns the body, whatever becomes of the op
  const Graph& body_;
  std::size_t num_carried_, num_sliced_;
  const std::vector<Value*>& arriving_;
  const std::vector<bool>& needed_;
  std::vector<bool> arrives_;  // by result of the body
  BodyDerivative derivative_;

  // The backward loop: its body, operands and what is where in them.
  std::unique_ptr<Graph> turn_ = std::make_unique<Graph>("turn_gradient");
  std::vector<Value*> operands_;
  std::size_t num_backward_carried_ = 0, num_rows_ = 0;
  std::unordered_map<std::size_t, Value*> carried_inputs_;         // by carried value of the forward loop
  std::unordered_map<std::size_t, std::size_t> place_of_carried_;  // likewise
  std::vector<Sum> sums_;
  std::unordered_map<const Value*, Value*> rows_;         // inputs of backward that are rows of a value outside
  std::unordered_map<const Value*, std::size_t> stacks_;  // values of backward by which result of the loop they are
  Op* made_ = nullptr;
};

// -- branches and calls -----------------------------------------------------------------------------------------------
// Both bodies of a branch return what either needs; the one that does not have it returns zeros.
class BranchGradient {
 public:
  BranchGradient(Builder& b, Op& op, const std::vector<Value*>& arriving, const std::vector<bool>& needed)
      : b_(b), op_(op), attrs_(op.attrs()), bodies_(bodies_of(attrs_)), first_(op.is("cond") ? 1 : 0),
        arriving_(arriving), needed_(needed.begin() + static_cast<std::ptrdiff_t>(first_), needed.end()) {}

  BodyGradients run() {
    std::vector<bool> arrives, passing(needed_.size(), false);
    for (const Value* gradient : arriving_) arrives.push_back(gradient != nullptr);
    for (const Graph* body : bodies_) derivatives_.push_back(differentiate_body(*body, needed_, arrives, passing));
    num_results_ = op_.num_outputs();
    Op* forward = replaced(b_.graph(), op_, with_bodies(attrs_, forward_bodies()));
    Op* backward = emit_backward(*forward);
    std::vector<GradientAnswer> answers(first_, {Flow::kNone, nullptr});
    std::size_t next = 0;
    for (std::size_t i = 0; i < needed_.size(); ++i) {
      const Flow flow = flow_of(i);
      answers.push_back({flow, flow == Flow::kGradient ? backward->output(next++) : nullptr});
    }
    return {forward, std::move(answers)};
  }

 private:
  Flow flow_of(std::size_t input) const {
    Flow flow = Flow::kNone;
    for (const BodyDerivative& derivative : derivatives_) {
      if (derivative.flows[input] == Flow::kGradient) return Flow::kGradient;
      if (derivative.flows[input] == Flow::kZero) flow = Flow::kZero;
    }
    return flow;
  }

  std::vector<std::unique_ptr<Graph>> forward_bodies() {
    std::vector<std::vector<TensorType>> saved(derivatives_.size());  // by body
    for (std::size_t k = 0; k < derivatives_.size(); ++k) {
      const auto& outputs = derivatives_[k].forward->outputs();
      for (std::size_t i = num_results_; i < outputs.size(); ++i) saved[k].push_back(outputs[i].value->type());
    }
    std::vector<std::unique_ptr<Graph>> result;
    for (std::size_t k = 0; k < derivatives_.size(); ++k) {
      auto graph = std::make_unique<Graph>(bodies_[k]->name());
      const Graph& own = *derivatives_[k].forward;
      GraphCopier copier(*graph);
      for (const auto& input : own.inputs()) copier.add_input(*input);
      for (const auto& op : own.ops()) copier.copy(*op);
      for (std::size_t i = 0; i < num_results_; ++i) {
        graph->add_output(own.outputs()[i].name, copier[own.outputs()[i].value]);
      }
      Builder inner(*graph);
      inner.location = b_.location;
      for (std::size_t other = 0; other < derivatives_.size(); ++other) {
        for (std::size_t i = 0; i < saved[other].size(); ++i) {
          const TensorType& type = saved[other][i];
          graph->add_output("saved", other == k ? copier[own.outputs()[num_results_ + i].value]
                                                : build::full(inner, type.dtype, type.shape, 0));
        }
      }
      result.push_back(std::move(graph));
    }
    return result;
  }

  // Where what body `k` has saved begins among the results of the forward op.
  std::size_t saved_at(std::size_t k) const {
    std::size_t place = num_results_;
    for (std::size_t other = 0; other < k; ++other) place += derivatives_[other].num_saved;
    return place;
  }

  Value* outside_value(const Op& forward, std::size_t k, const BodyDerivative::Operand& operand) const {
    switch (operand.kind) {
      case Kind::kSaved: return forward.output(saved_at(k) + operand.index);
      case Kind::kInput: return forward.input(first_ + operand.index);
      case Kind::kArriving: break;
    }
    return arriving_[operand.index];
  }

  Op* emit_backward(const Op& forward) {
    std::vector<Value*> operands;  // of all bodies
    std::unordered_map<const Value*, std::size_t> places;
    for (std::size_t k = 0; k < derivatives_.size(); ++k) {
      for (const auto& operand : derivatives_[k].operands) {
        Value* value = outside_value(forward, k, operand);
        if (places.emplace(value, operands.size()).second) operands.push_back(value);
      }
    }
    std::vector<std::unique_ptr<Graph>> bodies;
    for (std::size_t k = 0; k < derivatives_.size(); ++k) {
      const BodyDerivative& derivative = derivatives_[k];
      auto graph = std::make_unique<Graph>(bodies_[k]->name() + "_gradient");
      std::vector<Value*> inputs;
      for (const Value* operand : operands) inputs.push_back(graph->add_input("", operand->type()));
      GraphCopier copier(*graph);
      for (std::size_t i = 0; i < derivative.operands.size(); ++i) {
        const Value* value = outside_value(forward, k, derivative.operands[i]);
        copier.map(derivative.backward->inputs()[i].get(), inputs[places.at(value)]);
      }
      for (const auto& op : derivative.backward->ops()) copier.copy(*op);
      Builder inner(*graph);
      inner.backward = true;
      inner.location = b_.location;
      for (std::size_t i = 0; i < needed_.size(); ++i) {
        if (flow_of(i) != Flow::kGradient) continue;
        const TensorType& type = forward.input(first_ + i)->type();
        graph->add_output("gradient", derivative.flows[i] == Flow::kGradient
                                          ? copier[derivative.gradients[i]]
                                          : build::full(inner, type.dtype, type.shape, 0));
      }
      bodies.push_back(std::move(graph));
    }
    if (first_ == 1) operands.insert(operands.begin(), forward.input(0));
    return b_.emit(forward.name(), std::move(operands), with_bodies(attrs_, std::move(bodies)));
  }

  Builder& b_;
  Op& op_;
  const Attrs attrs_;  // own the bodies, whatever becomes of the op
  std::vector<const Graph*> bodies_;
  std::size_t first_;  // operand of the bodies
  const std::vector<Value*>& arriving_;
  std::vector<bool> needed_;  // by input of the bodies
  std::vector<BodyDerivative> derivatives_;
  std::size_t num_results_ = 0;
};

}  // namespace

BodyGradients differentiate_bodies(Builder& b, Op& op, const std::vector<Value*>& arriving,
                                   const std::vector<bool>& needed) {
  if (op.is("loop")) return LoopGradient(b, op, arriving, needed).run();
  return BranchGradient(b, op, arriving, needed).run();
}

}  // namespace aspen
