// Reverse-mode differentiation of the ops of one graph: of the whole one by the pass `differentiate`, of graphs that
// ops own by body_gradients.h.
#pragma once

#include <map>
#include <vector>

#include "aspen/compiler/autodiff/gradient_paths.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/ir/graph.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {

// What becomes of the gradient of a value: see GradientContext.
struct GradientAnswer {
  GradientContext::Flow flow = GradientContext::Flow::kUnsaid;
  Value* gradient = nullptr;  // where the flow is kGradient
};

class Differentiator {
 public:
  explicit Differentiator(Graph& graph);

  GradientPaths& paths() { return paths_; }
  Builder& builder() { return b_; }
  bool wants_gradient(const Value* value) { return paths_.wants(value); }
  // Ops are stamped like this one from now on, and belong to the backward pass.
  void like(const Op& op);
  // Adds to the gradient of a value; the first contribution is taken as it is.
  void add(Value* value, Value* gradient);
  // The rest of the graph, from its last op to its first. Hooks are taken note of, not visited.
  void visit_all();
  // After that: the whole gradient of a value, and whether nothing but zeros arrive at it.
  GradientAnswer answer_for(Value* value);
  // The same as a value, zeros included; nullptr: none arrives.
  Value* gradient_or_zeros(Value* value);

 private:
  Value* gradient_of(Value* value);
  void visit(Op& op);
  void fill_in_zeros(const Op& op, std::vector<Value*>& arriving);
  void take(const Op& op, std::size_t input, const GradientAnswer& answer);
  void pass_on_zeros(const Op& op);

  Graph& graph_;
  Builder b_;
  GradientPaths paths_;
  std::map<std::int64_t, std::vector<const Op*>> hooks_;  // by value id, in order
  // By value id, forward values only.
  std::vector<Value*> gradients_;
  std::vector<const Op*> reached_by_;  // the op through which a gradient of zero arrives; nullptr: none does
};

}  // namespace aspen
