#include "aspen/compiler/autodiff/differentiate.h"

#include <algorithm>

#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"

namespace aspen {
namespace {

class Differentiator {
 public:
  explicit Differentiator(Graph& graph) : graph_(graph), b_(graph), requires_(graph.num_values(), false) {
    b_.backward = true;
  }

  void run() {
    std::vector<Op*> forward;
    for (const auto& op : graph_.ops()) forward.push_back(op.get());
    mark_required(forward);
    Op* loss = *std::find_if(forward.begin(), forward.end(), [](const Op* op) { return op->is("loss"); });
    std::erase(forward, loss);
    Value* root = loss->input(0);
    b_.like(*loss);
    replace_op(graph_, loss, root);
    if (wants_gradient(root)) {
      Value* seed = build::full_like(b_, root, 1);
      seed->set_name(kSeedName);
      add(root, seed);
    }
    for (auto op = forward.rbegin(); op != forward.rend(); ++op) visit(**op);
    set_gradients();
  }

 private:
  bool wants_gradient(const Value* value) const { return value != nullptr && requires_[value->id()]; }

  void mark_required(const std::vector<Op*>& forward) {
    for (const auto& variable : graph_.variables()) {
      requires_[variable->value->id()] = variable->trainable && is_floating(variable->value->dtype());
    }
    for (const Op* op : forward) {
      if (op->no_grad || op->is("detach")) continue;
      bool any = std::any_of(op->inputs().begin(), op->inputs().end(),
                             [&](const Value* input) { return wants_gradient(input); });
      for (const Value* output : op->outputs()) requires_[output->id()] = any && is_floating(output->dtype());
    }
    gradients_.resize(requires_.size(), nullptr);
    reached_by_.resize(requires_.size(), nullptr);
  }

  // Adds to the gradient of a value; the first contribution is taken as it is.
  void add(Value* value, Value* gradient) {
    Value*& sum = gradients_[value->id()];
    sum = sum == nullptr ? gradient : build::add(b_, sum, gradient);
  }

  void visit(const Op& op) {
    std::vector<Value*> arriving;
    std::vector<bool> needed;
    for (const Value* output : op.outputs()) {
      arriving.push_back(wants_gradient(output) ? gradients_[output->id()] : nullptr);
    }
    for (const Value* input : op.inputs()) needed.push_back(wants_gradient(input));
    bool arrives = std::any_of(arriving.begin(), arriving.end(), [](const Value* g) { return g != nullptr; });
    if (!arrives) return pass_on_zeros(op);
    if (!op.def().has_gradient()) {
      std::string where = describe(op.location);
      throw UserError(
          "[{}] has no gradient, and one is needed on the way from the loss to a parameter. Wrap its input "
          "in detach() if none should flow.{}",
          op.name(), where.empty() ? "" : "\n  captured at " + where);
    }
    like(op);
    GradientContext context(b_, op, std::move(arriving), needed);
    op.def().gradient(context);
    for (std::size_t i = 0; i < op.num_inputs(); ++i) {
      if (needed[i]) take(context, i);
    }
  }

  void take(const GradientContext& context, std::size_t i) {
    const Op& op = context.op;
    switch (context.flow(i)) {
      case GradientContext::Flow::kGradient: break;
      case GradientContext::Flow::kZero: reached_by_[op.input(i)->id()] = &op; return;
      case GradientContext::Flow::kNone: return;
      case GradientContext::Flow::kUnsaid:
        throw InternalError("the gradient rule of {} says nothing about input {} (\"{}\"), which needs a gradient",
                            op.name(), i, op.def().input_port(i).name);
    }
    Value* gradient = context.gradient(i);
    if (gradient == nullptr || gradient->type() != op.input(i)->type()) {
      throw InternalError("the gradient of {} by input {} (\"{}\") is {}; the input is {}", op.name(), i,
                          op.def().input_port(i).name, gradient == nullptr ? "missing" : to_string(gradient->type()),
                          to_string(op.input(i)->type()));
    }
    add(op.input(i), gradient);
  }

  // Where nothing but zeros arrives there is nothing to compute: what lies before the op is reached as well.
  void pass_on_zeros(const Op& op) {
    auto outputs = op.outputs();
    bool is_reached = std::any_of(outputs.begin(), outputs.end(), [&](const Value* output) {
      return wants_gradient(output) && reached_by_[output->id()] != nullptr;
    });
    if (!is_reached) return;
    for (const Value* input : op.inputs()) {
      if (wants_gradient(input)) reached_by_[input->id()] = &op;
    }
  }

  void set_gradients() {
    for (const auto& variable : graph_.variables()) {
      std::int64_t id = variable->value->id();
      Value* gradient = gradients_[id];
      if (gradient == nullptr && reached_by_[id] != nullptr) {
        like(*reached_by_[id]);
        gradient = build::full_like(b_, variable->value.get(), 0);
      }
      if (gradient == nullptr) continue;
      if (gradient->name().empty()) gradient->set_name("Gradient___" + variable->name);  // for the reader
      graph_.set_gradient(*variable, gradient);
    }
  }

  void like(const Op& op) {
    b_.like(op);
    b_.no_grad = false;
  }

  Graph& graph_;
  Builder b_;
  // By value id, forward values only.
  std::vector<bool> requires_;
  std::vector<Value*> gradients_;
  std::vector<const Op*> reached_by_;  // the op through which a gradient of zero arrives; nullptr: none does
};

}  // namespace

void differentiate(Graph& graph, const PassContext&) { Differentiator(graph).run(); }

}  // namespace aspen
