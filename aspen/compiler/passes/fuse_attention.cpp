#include "aspen/compiler/passes/fuse_attention.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "aspen/base/log.h"
#include "aspen/compiler/autodiff/gradient_paths.h"
#include "aspen/compiler/passes/matrix_places.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/attention/attention.h"
#include "aspen/ops/build.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/softmax/softmax.h"

namespace aspen {
namespace {

// Wider heads are products large enough to be left to the kernels of dot.
constexpr std::int64_t kMostWidth = 256;

// Whether a reshape leaves the last two axes alone.
bool keeps_matrices(const Op& reshape) {
  const Shape &from = reshape.input(0)->shape(), &to = reshape.output()->shape();
  return from.size() >= 2 && to.size() >= 2 && std::equal(from.end() - 2, from.end(), to.end() - 2);
}

std::int64_t numel_between(const Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t result = 1;
  for (std::size_t i = begin; i < end; ++i) result *= shape[i];
  return result;
}

// -- what is done to scores -------------------------------------------------------------------------------------------

struct Mask {
  Value* value = nullptr;
  Shape scores;              // that it is broadcast to
  bool is_inverted = false;  // it says which scores stay

  // How many there are, along samples and along heads.
  struct Split {
    std::int64_t samples = 1, heads = 1;
  };

  // How it can be given for so many heads without being written out for all of them.
  std::optional<Split> split_for(std::int64_t heads) const {
    const std::size_t axes = scores.size() - 2;
    for (std::size_t at = 0; at <= axes; ++at) {
      if (numel_between(scores, at, axes) != heads) continue;
      const auto samples = joined(0, at), of_heads = joined(at, axes);
      if (samples && of_heads) return Split{*samples, *of_heads};
    }
    return joined(0, axes) == 1 ? std::optional<Split>(Split{}) : std::nullopt;
  }

  std::int64_t size(std::size_t axis) const {  // along an axis of the scores
    const Shape& shape = value->shape();
    return axis + shape.size() < scores.size() ? 1 : shape[axis + shape.size() - scores.size()];
  }

 private:
  // Of axes that are as long as those of the scores and then 1: it is the same for some in a row.
  std::optional<std::int64_t> joined(std::size_t begin, std::size_t end) const {
    std::int64_t own = 1;
    bool is_shared = false;
    for (std::size_t i = begin; i < end; ++i) {
      if (is_shared && size(i) != 1) return std::nullopt;
      is_shared = is_shared || size(i) != scores[i];
      own *= size(i);
    }
    return own;
  }
};

// -- the ops of one attention -----------------------------------------------------------------------------------------

class Attention {
 public:
  Attention(Op* softmax, const CompileOptions& options) : softmax_(softmax) {
    const std::int64_t axis = softmax->attrs<SoftmaxAttrs>().axis, rank = softmax->output()->rank();
    const bool is_last = rank >= 3 && (axis == -1 || axis == rank - 1);
    found_ = is_last && is_fast_type(softmax->output()->dtype()) && finds_weighted() &&
             comes_from_product(softmax->input(0)) && fits() && !(options.training && wants_gradient_of_mask());
  }

  bool is_found() const { return found_; }

  void replace(Graph& graph) {
    const auto &scored = product_->attrs<DotAttrs>(), &summed = weighted_->attrs<DotAttrs>();
    const std::vector<ProductMatrices> operands{ProductMatrices::read_by(*product_, 0, scored.transpose_a, true),
                                                ProductMatrices::read_by(*product_, 1, !scored.transpose_b, true),
                                                ProductMatrices::read_by(*weighted_, 1, summed.transpose_b, false)};
    const ProductMatrices result = ProductMatrices::made_by(*weighted_, false);
    const std::int64_t heads = best_heads({operands[0], operands[1], operands[2], result});

    Builder b(graph);
    b.like(*weighted_);
    b.before = weighted_;
    std::vector<Value*> inputs;
    for (const ProductMatrices& operand : operands) inputs.push_back(operand.lay_out(b, heads, attrs_.scale));
    inputs.push_back(mask_.value == nullptr ? nullptr : lay_out_mask(b, heads));
    result.replace(b, b.make("attention", inputs, attrs_));
  }

 private:
  static bool is_fast_type(DType type) { return type == DType::kF32 || is_narrow_float(type); }

  const Shape& scores() const { return product_->output()->shape(); }
  std::int64_t rows() const { return scores()[scores().size() - 2]; }
  std::int64_t keys() const { return scores().back(); }
  std::int64_t matrices() const { return numel_between(scores(), 0, scores().size() - 2); }
  std::int64_t depth() const { return product_->input(0)->type().numel() / (matrices() * rows()); }
  std::int64_t width() const { return weighted_->output()->shape().back(); }

  bool fits() const {
    const bool has_elements = softmax_->output()->type().numel() > 0 && weighted_->output()->type().numel() > 0 &&
                              product_->input(0)->type().numel() > 0;
    return has_elements && depth() <= kMostWidth && width() <= kMostWidth;
  }

  bool is_between(const Value& value) const {
    return value.users().size() == 1 && !value.is_output() && !value.is_gradient();
  }

  bool wants_gradient_of_mask() const { return mask_.value != nullptr && GradientPaths().wants(mask_.value); }

  // The product after softmax.
  bool finds_weighted() {
    for (const Value* weights = softmax_->output(); is_between(*weights);) {
      Op* op = weights->users().front();
      if (!belong_together(*op, *softmax_)) return false;
      if (op->is("dot")) {
        weighted_ = op;
        return op->input(0) == weights && !op->attrs<DotAttrs>().transpose_a;
      }
      if (!op->is("reshape") || !keeps_matrices(*op)) return false;
      weights = op->output();
    }
    return false;
  }

  // The product before softmax, and what is done to it on the way there.
  bool comes_from_product(const Value* value) {
    Op* op = value->producer();
    if (op == nullptr || !is_between(*value) || !belong_together(*op, *softmax_)) return false;
    if (op->is("dot")) {
      product_ = op;
      return true;
    }
    if (op->is("reshape")) return keeps_matrices(*op) && comes_from_product(op->input(0));
    double factor = 1;
    if (const Value* scaled = scaled_operand(*op, factor)) {
      attrs_.scale *= factor;
      return comes_from_product(scaled);
    }
    // Only what stands before the mask is scaled.
    if (mask_.value != nullptr || attrs_.scale != 1) return false;
    if (op->is("add")) return takes_mask(*op, 0, 1) || takes_mask(*op, 1, 0);
    if (op->is("select")) return takes_choice(*op, 2, 1) || takes_choice(*op, 1, 2);
    return false;
  }

  bool takes_mask(const Op& op, std::size_t scores, std::size_t mask) {
    if (op.input(scores)->type() != op.output()->type()) return false;
    mask_ = {op.input(mask), op.output()->shape()};
    if (comes_from_product(op.input(scores))) return true;
    mask_ = {};
    attrs_ = {};
    return false;
  }

  bool takes_choice(const Op& op, std::size_t scores, std::size_t fill) {
    const auto number = number_of(*op.input(fill));
    if (!number || op.input(scores)->type() != op.output()->type()) return false;
    mask_ = {op.input(0), op.output()->shape(), scores == 1};
    attrs_.fill = *number;
    return comes_from_product(op.input(scores));
  }

  // With which the fewest elements are copied.
  std::int64_t best_heads(const std::vector<ProductMatrices>& all) const {
    std::vector<std::int64_t> choices;
    for (const ProductMatrices& matrices : all) {
      for (const MatrixPlace& place : matrices.places()) choices.push_back(std::max<std::int64_t>(place.heads, 1));
    }
    for (std::size_t axis = 0; mask_.value != nullptr && axis + 2 < mask_.scores.size(); ++axis) {
      choices.push_back(numel_between(mask_.scores, axis, mask_.scores.size() - 2));
    }
    choices.push_back(1);
    auto copied = [&](std::int64_t heads) {
      std::int64_t sum = 0;
      for (const ProductMatrices& matrices : all) sum += matrices.copied(heads);
      if (mask_.value != nullptr && !mask_.split_for(heads)) sum += mask_.size(mask_.scores.size() - 2) * keys();
      return sum;
    };
    return *std::min_element(choices.begin(), choices.end(), [&](auto a, auto b) { return copied(a) < copied(b); });
  }

  // (samples or fewer, heads or fewer, rows or 1, keys).
  Value* lay_out_mask(Builder& b, std::int64_t heads) const {
    Value* mask = mask_.is_inverted ? build::unary(b, "logical_not", mask_.value) : mask_.value;
    const std::size_t axes = mask_.scores.size() - 2;
    const auto split = mask_.split_for(heads);
    Shape shape = mask_.scores;
    for (std::size_t i = 0; i <= axes; ++i) {
      if (split || i == axes) shape[i] = mask_.size(i);
    }
    mask = build::broadcast(b, mask, shape);
    return build::reshape(
        b, mask, {split ? split->samples : matrices() / heads, split ? split->heads : heads, mask_.size(axes), keys()});
  }

  Op* softmax_;
  Op *product_ = nullptr, *weighted_ = nullptr;  // before and after softmax
  Mask mask_;
  AttentionAttrs attrs_;
  bool found_ = false;
};

}  // namespace

void fuse_attention(Graph& graph, const PassContext& context) {
  const CompileOptions& options = context.options;
  // Products that are to be rounded stay products.
  if (options.checks_floats || (options.training && options.bfloat16_products)) return;
  std::vector<Op*> softmaxes;
  for (const auto& op : graph.ops()) {
    if (op->is("softmax")) softmaxes.push_back(op.get());
  }
  std::size_t num_fused = 0;
  for (Op* softmax : softmaxes) {
    Attention attention(softmax, options);
    if (!attention.is_found()) continue;
    attention.replace(graph);
    ++num_fused;
  }
  if (!softmaxes.empty()) log::debug("attention: {} of {} softmaxes with their products", num_fused, softmaxes.size());
}

}  // namespace aspen
