#include "aspen/compiler/autodiff/differentiate.h"

#include <algorithm>
#include <map>

#include "aspen/compiler/autodiff/gradient_paths.h"
#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"
#include "aspen/ops/gradient/gradient.h"

namespace aspen {
namespace {

class Differentiator {
 public:
  explicit Differentiator(Graph& graph)
      : graph_(graph), b_(graph), gradients_(graph.num_values(), nullptr), reached_by_(graph.num_values(), nullptr) {}

  void run() {
    std::vector<Op*> forward;
    for (const auto& op : graph_.ops()) {
      if (op->is("gradient_hook")) {
        hooks_[op->input(0)->id()].push_back(op.get());
      } else {
        forward.push_back(op.get());
      }
    }
    Op* loss = *std::find_if(forward.begin(), forward.end(), [](const Op* op) { return op->is("loss"); });
    std::erase(forward, loss);
    Value* root = loss->input(0);
    like(*loss);
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
  bool wants_gradient(const Value* value) { return paths_.wants(value); }

  // Adds to the gradient of a value; the first contribution is taken as it is.
  void add(Value* value, Value* gradient) {
    Value*& sum = gradients_[value->id()];
    sum = sum == nullptr ? gradient : build::add(b_, sum, gradient);
  }

  // The whole gradient of a value, all its uses having been visited; nullptr: none. Hooks see it first.
  Value* gradient_of(Value* value) {
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

  static std::string captured_at(const Op& op) {
    std::string where = describe(op.location);
    return where.empty() ? "" : "\n  captured at " + where;
  }

  void visit(const Op& op) {
    std::vector<Value*> arriving;
    std::vector<bool> needed;
    for (Value* output : op.outputs()) arriving.push_back(gradient_of(output));
    for (const Value* input : op.inputs()) needed.push_back(wants_gradient(input));
    // Only the function of the user's knows to which inputs it passes zeros on.
    if (op.is("custom_gradient")) fill_in_zeros(op, arriving);
    bool arrives = std::any_of(arriving.begin(), arriving.end(), [](const Value* g) { return g != nullptr; });
    if (!arrives) return pass_on_zeros(op);
    if (!op.def().has_gradient()) {
      throw UserError(
          "[{}] has no gradient, and one is needed on the way from the loss to a parameter. Wrap its input "
          "in detach() if none should flow.{}",
          op.name(), captured_at(op));
    }
    like(op);
    GradientContext context(b_, op, std::move(arriving), needed);
    op.def().gradient(context);
    for (std::size_t i = 0; i < op.num_inputs(); ++i) {
      if (needed[i]) take(context, i);
    }
  }

  void fill_in_zeros(const Op& op, std::vector<Value*>& arriving) {
    for (std::size_t i = 0; i < arriving.size(); ++i) {
      Value* output = op.output(i);
      if (arriving[i] != nullptr || !wants_gradient(output) || reached_by_[output->id()] == nullptr) continue;
      like(op);
      arriving[i] = build::full_like(b_, output, 0);
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
      // A hook or a function's backward was the first to read it: nothing of the forward pass leads there.
      if (id >= static_cast<std::int64_t>(reached_by_.size())) continue;
      Value* gradient = gradient_of(variable->value.get());
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
    b_.backward = true;
    b_.no_grad = false;
  }

  Graph& graph_;
  Builder b_;
  GradientPaths paths_;
  std::map<std::int64_t, std::vector<const Op*>> hooks_;  // by value id, in order
  // By value id, forward values only.
  std::vector<Value*> gradients_;
  std::vector<const Op*> reached_by_;  // the op through which a gradient of zero arrives; nullptr: none does
};

}  // namespace

void differentiate(Graph& graph, const PassContext&) { Differentiator(graph).run(); }

}  // namespace aspen
