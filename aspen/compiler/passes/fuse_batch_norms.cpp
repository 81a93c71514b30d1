#include "aspen/compiler/passes/fuse_batch_norms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/batch_norm/batch_norm.h"
#include "aspen/ops/unary/unary.h"

namespace aspen {
namespace {

bool is_seen_outside(const Value& value) { return value.is_output() || value.is_gradient(); }

// The op that alone reads the value, in the place of another op; nullptr: there is none.
Op* only_user(const Value& value, const Op& near) {
  if (value.users().size() != 1 || is_seen_outside(value)) return nullptr;
  Op* user = value.users().front();
  return run_together(*user, near) ? user : nullptr;
}

// Of the ops, in the order of the graph; fused ones stand where the normalisation stood.
using Places = std::unordered_map<const Op*, std::size_t>;

// A normalisation, the ops after it that it can take over, and the masks that its gradients can.
class BatchNorm {
 public:
  BatchNorm(Op* norm, const Places& places)
      : norm_(norm), places_(places), attrs_{.norm = norm->attrs<BatchNormAttrs>()} {
    if (takes_clamp()) return;
    if (Op* next = only_user(*norm_->output(), *norm_); next != nullptr && next->is("add")) takes_sum(next);
    if (Op* next = only_user(result(), *norm_); next != nullptr && next->is("relu")) takes_relu(next);
  }

  bool is_longer() const { return last_ != nullptr; }

  // What it is replaced by.
  Op* replace(Graph& graph) const {
    Builder b(graph);
    for (Op* mask : masks_) let_gradient_mask(graph, mask);
    b.before = norm_;
    Op* fused = b.emit("batch_norm_bounded", {norm_->input(0), norm_->input(1), norm_->input(2), other_}, attrs_);
    fused->take_stamps(*norm_);
    replace_value(graph, last_->output(), fused->output(0));
    for (std::size_t i : {1, 2}) replace_value(graph, norm_->output(i), fused->output(i));
    graph.erase(last_);
    if (sum_ != nullptr && sum_ != last_) graph.erase(sum_);
    graph.erase(norm_);
    return fused;
  }

 private:
  const Value& result() const { return last_ != nullptr ? *last_->output() : *norm_->output(); }

  void take(Op* op, double low, double high, bool open) {
    last_ = op;
    attrs_.low = low;
    attrs_.high = high;
    attrs_.open = open;
  }

  // The gradient of clamp reads what clamp reads, so that all of them are taken or none.
  bool takes_clamp() {
    const Value& y = *norm_->output();
    if (is_seen_outside(y)) return false;
    Op* clamp = nullptr;
    std::vector<Op*> masks;
    for (Op* user : y.users()) {
      if (user->is("clamp") && clamp == nullptr && run_together(*user, *norm_)) {
        clamp = user;
      } else if (user->is("clamp_grad") && user->input(0) == &y && is_mask_of_gradient(*user)) {
        masks.push_back(user);
      } else {
        return false;
      }
    }
    if (clamp == nullptr || !are_plain(clamp->attrs<ClampAttrs>())) return false;
    if (!std::all_of(masks.begin(), masks.end(), [&](const Op* m) { return m->attrs() == clamp->attrs(); }))
      return false;
    const auto& bounds = clamp->attrs<ClampAttrs>();
    take(clamp, bounds.low, bounds.high, bounds.open);
    masks_ = std::move(masks);
    return true;
  }

  // Open bounds at infinity stop the gradient of an infinite number; relu's do not.
  static bool are_plain(const ClampAttrs& bounds) {
    if (std::isnan(bounds.low) || std::isnan(bounds.high)) return false;
    const bool is_low = std::isfinite(bounds.low), is_high = std::isfinite(bounds.high);
    return bounds.open ? is_low && is_high : is_low || is_high;
  }

  void takes_sum(Op* add) {
    const std::size_t beside = add->input(0) == norm_->output() ? 1 : 0;
    Value* other = add->input(beside);
    if (other == norm_->output() || other->type() != norm_->output()->type() || !is_before(*other)) return;
    last_ = sum_ = add;
    other_ = other;
  }

  // Whoever reads the statistics may stand right behind the normalisation, so that it cannot wait for a summand.
  bool is_before(const Value& value) const {
    return value.producer() == nullptr || places_.at(value.producer()) < places_.at(norm_);
  }

  // The gradient of relu reads its result, which stays.
  void takes_relu(Op* relu) {
    take(relu, 0, std::numeric_limits<double>::infinity(), true);
    if (other_ != nullptr) return;
    for (Op* user : relu->output()->users()) {
      if (user->is("relu_grad") && user->input(0) == relu->output() && is_mask_of_gradient(*user)) {
        masks_.push_back(user);
      }
    }
  }

  // Whether what it lets through is read by a gradient of this normalisation, and by nothing else.
  bool is_mask_of_gradient(const Op& mask) const {
    const Op* gradient = only_user(*mask.output(), mask);
    if (gradient == nullptr || !gradient->is("batch_norm_grad") || gradient->input(5) != mask.output()) return false;
    for (std::size_t i : {0, 1, 2}) {
      if (gradient->input(i) != norm_->input(i)) return false;
    }
    return gradient->input(3) == norm_->output(1) && gradient->input(4) == norm_->output(2);
  }

  void let_gradient_mask(Graph& graph, Op* mask) const {
    Op* gradient = mask->output()->users().front();
    std::vector<Value*> inputs = gradient->inputs();
    inputs[5] = mask->input(1);
    Builder b(graph);
    b.before = gradient;
    Op* fused = b.emit("batch_norm_grad", std::move(inputs), attrs_);
    fused->take_stamps(*gradient);
    for (std::size_t i = 0; i < gradient->num_outputs(); ++i) {
      replace_value(graph, gradient->output(i), fused->output(i));
    }
    graph.erase(gradient);
    graph.erase(mask);
  }

  Op* norm_;
  const Places& places_;
  Op *sum_ = nullptr, *last_ = nullptr;  // the sum, and the last op that is taken over
  Value* other_ = nullptr;
  std::vector<Op*> masks_;
  BoundedBatchNormAttrs attrs_;
};

}  // namespace

void fuse_batch_norms(Graph& graph, const PassContext& context) {
  if (context.options.checks_floats) return;
  std::vector<Op*> norms;
  Places places;
  for (const auto& op : graph.ops()) {
    places.emplace(op.get(), places.size());
    if (op->is("batch_norm") && op->output()->dtype() == DType::kF32) norms.push_back(op.get());
  }
  std::size_t num_fused = 0;
  for (Op* op : norms) {
    BatchNorm norm(op, places);
    if (!norm.is_longer()) continue;
    const std::size_t place = places.at(op);
    places[norm.replace(graph)] = place;
    ++num_fused;
  }
  if (!norms.empty()) log::debug("batch normalisations: {} of {} with what follows them", num_fused, norms.size());
}

}  // namespace aspen
