#include "aspen/compiler/passes/fuse_convolutions.h"

#include <cmath>
#include <vector>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/conv/conv.h"
#include "aspen/ops/unary/unary.h"

namespace aspen {
namespace {

// A convolution and the ops after it that it can take over, in the order in which conv_affine does what they do.
class Chain {
 public:
  explicit Chain(Op* conv) : ops_{conv}, attrs_{.conv = conv->attrs<ConvAttrs>()} {
    while (Op* next = only_user()) {
      if (!takes(*next)) break;
      ops_.push_back(next);
    }
  }

  bool is_longer() const { return ops_.size() > 1; }

  void replace(Graph& graph) const {
    const Op& conv = *ops_.front();
    Op* last = ops_.back();
    Builder b(graph);
    b.before = last;
    Value* bias = conv.num_inputs() > 2 ? conv.input(2) : nullptr;
    Op* fused = b.emit("conv_affine", {conv.input(0), conv.input(1), bias, scale_, shift_, other_}, attrs_);
    fused->take_stamps(conv);
    replace_value(graph, last->output(), fused->output());
    for (auto op = ops_.rbegin(); op != ops_.rend(); ++op) graph.erase(*op);
  }

 private:
  enum Step { kConv, kScale, kShift, kOther, kBounds };

  const Value& result() const { return *ops_.back()->output(); }

  Op* only_user() const {
    const Value& value = result();
    if (value.users().size() != 1 || value.is_output() || value.is_gradient()) return nullptr;
    Op* user = value.users().front();
    return run_together(*user, *ops_.front()) ? user : nullptr;
  }

  bool takes(const Op& op) {
    if (op.is("mul")) return takes_channels(op, kScale, scale_);
    if (op.is("add")) return takes_channels(op, kShift, shift_) || takes_other(op);
    if (op.is("relu")) return takes_bounds({.low = 0});
    return op.is("clamp") && takes_bounds(op.attrs<ClampAttrs>());
  }

  // The operand beside the chain.
  Value* beside(const Op& op) const { return op.input(op.input(0) == &result() ? 1 : 0); }

  bool takes_channels(const Op& op, Step step, Value*& operand) {
    const TensorType& y = result().type();
    TensorType channels{y.dtype, Shape(y.shape.size(), 1)};
    channels.shape[1] = y.shape[1];
    if (last_ >= step || beside(op)->type() != channels) return false;
    operand = beside(op);
    last_ = step;
    return true;
  }

  bool takes_other(const Op& op) {
    if (last_ >= kOther || beside(op)->type() != result().type()) return false;
    other_ = beside(op);
    last_ = kOther;
    return true;
  }

  bool takes_bounds(const ClampAttrs& bounds) {
    if (last_ >= kBounds || std::isnan(bounds.low) || std::isnan(bounds.high)) return false;
    attrs_.low = bounds.low;
    attrs_.high = bounds.high;
    last_ = kBounds;
    return true;
  }

  std::vector<Op*> ops_;
  ConvAffineAttrs attrs_;
  Value *scale_ = nullptr, *shift_ = nullptr, *other_ = nullptr;
  Step last_ = kConv;
};

}  // namespace

void fuse_convolutions(Graph& graph, const PassContext& context) {
  if (context.options.checks_floats) return;
  std::vector<Op*> convolutions;
  for (const auto& op : graph.ops()) {
    if (op->is("conv") && op->output()->dtype() == DType::kF32) convolutions.push_back(op.get());
  }
  std::size_t num_fused = 0;
  for (Op* conv : convolutions) {
    Chain chain(conv);
    if (!chain.is_longer()) continue;
    chain.replace(graph);
    ++num_fused;
  }
  if (!convolutions.empty())
    log::debug("convolutions: {} of {} with what follows them", num_fused, convolutions.size());
}

}  // namespace aspen
