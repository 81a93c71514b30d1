#include "aspen/compiler/autodiff/differentiator.h"

#include <algorithm>

#include "aspen/compiler/autodiff/body_gradients.h"
#include "aspen/compiler/evaluate.h"
#include "aspen/ops/build.h"
#include "aspen/ops/gradient/gradient.h"

namespace aspen {
namespace {

using Flow = GradientContext::Flow;

std::string captured_at(const Op& op) {
  std::string where = describe(op.location);
  return where.empty() ? "" : "\n  captured at " + where;
}

// The op's own rule.
std::vector<GradientAnswer> answers_of(Builder& b, const Op& op, std::vector<Value*> arriving,
                                       const std::vector<bool>& needed) {
  if (!op.def().has_gradient()) {
    throw UserError(
        "[{}] has no gradient, and one is needed on the way from the loss to a parameter. Wrap its input "
        "in detach() if none should flow.{}",
        op.name(), captured_at(op));
  }
  GradientContext context(b, op, std::move(arriving), needed);
  op.def().gradient(context);
  std::vector<GradientAnswer> answers;
  for (std::size_t i = 0; i < op.num_inputs(); ++i) answers.push_back({context.flow(i), context.gradient(i)});
  return answers;
}

}  // namespace

Differentiator::Differentiator(Graph& graph)
    : graph_(graph), b_(graph), gradients_(graph.num_values(), nullptr), reached_by_(graph.num_values(), nullptr) {}

void Differentiator::like(const Op& op) {
  b_.like(op);
  b_.backward = true;
  b_.no_grad = false;
}

void Differentiator::add(Value* value, Value* gradient) {
  Value*& sum = gradients_[value->id()];
  sum = sum == nullptr ? gradient : build::add(b_, sum, gradient);
}

void Differentiator::visit_all() {
  std::vector<Op*> forward;
  for (const auto& op : graph_.ops()) {
    if (op->is("gradient_hook")) {
      hooks_[op->input(0)->id()].push_back(op.get());
    } else if (!op->backward) {
      forward.push_back(op.get());
    }
  }
  for (auto op = forward.rbegin(); op != forward.rend(); ++op) visit(**op);
}

// The whole gradient of a value, all its uses having been visited; nullptr: none. Hooks see it first.
Value* Differentiator::gradient_of(Value* value) {
  if (!wants_gradient(value)) return nullptr;
  Value*& gradient = gradients_[value->id()];
  auto hooks = hooks_.find(value->id());
  if (hooks == hooks_.end()) return gradient;
  if (gradient == nullptr && reached_by_[value->id()] != nullptr) {
    like(*reached_by_[value->id()]);
    gradient = build::full_like(b_, value, 0);
  }
  if (gradient == nullptr) return nullptr;
  for (const Op* hook : hooks->second) {
    Value* changed = hook->attrs<GradientHookAttrs>().function->run(*hook, {gradient}).at(0);
    if (changed->type() != gradient->type()) {
      throw UserError("[register_hook] a hook changed a gradient of type {} into {}; it must keep shape and type.{}",
                      to_string(gradient->type()), to_string(changed->type()), captured_at(*hook));
    }
    gradient = changed;
  }
  hooks_.erase(hooks);
  return gradient;
}

GradientAnswer Differentiator::answer_for(Value* value) {
  // A hook or a function's backward was the first to read it: nothing of the forward pass leads there.
  if (value->id() >= static_cast<std::int64_t>(reached_by_.size())) return {Flow::kNone, nullptr};
  if (Value* gradient = gradient_of(value)) return {Flow::kGradient, gradient};
  return {wants_gradient(value) && reached_by_[value->id()] != nullptr ? Flow::kZero : Flow::kNone, nullptr};
}

Value* Differentiator::gradient_or_zeros(Value* value) {
  const GradientAnswer answer = answer_for(value);
  if (answer.flow != Flow::kZero) return answer.gradient;
  like(*reached_by_[value->id()]);
  return build::full_like(b_, value, 0);
}

void Differentiator::visit(Op& op) {
  std::vector<Value*> arriving;
  std::vector<bool> needed;
  for (Value* output : op.outputs()) arriving.push_back(gradient_of(output));
  for (const Value* input : op.inputs()) needed.push_back(wants_gradient(input));
  // Only the function of the user's knows to which inputs it passes zeros on.
  if (op.is("custom_gradient")) fill_in_zeros(op, arriving);
  bool arrives = std::any_of(arriving.begin(), arriving.end(), [](const Value* g) { return g != nullptr; });
  if (!arrives) return pass_on_zeros(op);
  like(op);
  // The op itself may be replaced: it has to keep more than it did for what comes after it.
  const std::vector<Value*> inputs = op.inputs();
  const Op* user = &op;
  std::vector<GradientAnswer> answers;
  if (op.def().does_own_graphs()) {
    BodyGradients gradients = differentiate_bodies(b_, op, arriving, needed);
    answers = std::move(gradients.answers);
    user = gradients.op;
  } else {
    answers = answers_of(b_, op, std::move(arriving), needed);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (needed[i]) take(*user, i, answers[i]);
  }
}

void Differentiator::fill_in_zeros(const Op& op, std::vector<Value*>& arriving) {
  for (std::size_t i = 0; i < arriving.size(); ++i) {
    Value* output = op.output(i);
    if (arriving[i] != nullptr || !wants_gradient(output) || reached_by_[output->id()] == nullptr) continue;
    like(op);
    arriving[i] = build::full_like(b_, output, 0);
  }
}

void Differentiator::take(const Op& op, std::size_t i, const GradientAnswer& answer) {
  Value* input = op.input(i);
  switch (answer.flow) {
    case Flow::kGradient: break;
    case Flow::kZero: reached_by_[input->id()] = &op; return;
    case Flow::kNone: return;
    case Flow::kUnsaid:
      throw InternalError("the gradient rule of {} says nothing about input {} (\"{}\"), which needs a gradient",
                          op.name(), i, op.def().input_port(i).name);
  }
  if (answer.gradient == nullptr || answer.gradient->type() != input->type()) {
    throw InternalError(
        "the gradient of {} by input {} (\"{}\") is {}; the input is {}", op.name(), i, op.def().input_port(i).name,
        answer.gradient == nullptr ? "missing" : to_string(answer.gradient->type()), to_string(input->type()));
  }
  add(input, answer.gradient);
}

// Where nothing but zeros arrives there is nothing to compute: what lies before the op is reached as well.
void Differentiator::pass_on_zeros(const Op& op) {
  auto outputs = op.outputs();
  bool is_reached = std::any_of(outputs.begin(), outputs.end(), [&](const Value* output) {
    return wants_gradient(output) && reached_by_[output->id()] != nullptr;
  });
  if (!is_reached) return;
  for (const Value* input : op.inputs()) {
    if (wants_gradient(input)) reached_by_[input->id()] = &op;
  }
}

}  // namespace aspen
