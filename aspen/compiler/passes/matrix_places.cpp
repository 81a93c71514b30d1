#include "aspen/compiler/passes/matrix_places.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"
#include "aspen/ops/shape/shape.h"

namespace aspen {
namespace {

enum Role : std::uint8_t { kBatch, kRow, kColumn, kNumRoles };

// An axis of a tensor, as part of an index of the matrices: a step along it is `stride` steps of that index.
struct Axis {
  std::int64_t size = 1;
  Role role = kBatch;
  std::int64_t stride = 1;
};
using Axes = std::vector<Axis>;

// Of a tensor (N..., R, C).
Axes axes_of(const Shape& shape, bool is_transposed) {
  Axes axes;
  for (std::int64_t size : shape) axes.push_back({.size = size});
  const std::size_t last = axes.size() - 1;
  axes[last].role = is_transposed ? kRow : kColumn;
  axes[last - 1].role = is_transposed ? kColumn : kRow;
  for (std::size_t i = last - 1; i-- > 0;) axes[i].stride = i + 2 == last ? 1 : axes[i + 1].stride * axes[i + 1].size;
  return axes;
}

// With axes of size 1 left out and those joined that one index runs through in this order.
Axes joined(const Axes& axes) {
  Axes result;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (!result.empty() && result.back().role == axis.role && result.back().stride == axis.stride * axis.size) {
      result.back().size *= axis.size;
      result.back().stride = axis.stride;
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

// The axes of the same elements under another shape; nothing where one of its axes would belong to two indices.
std::optional<Axes> reshaped(const Axes& axes, const Shape& shape) {
  const Axes from = joined(axes);
  Axes result;
  auto at = from.begin();
  std::int64_t left = at == from.end() ? 1 : at->size;
  for (std::int64_t size : shape) {
    if (size == 1) {
      result.push_back({});
      continue;
    }
    if (at == from.end() || left % size != 0) return std::nullopt;
    left /= size;
    result.push_back({size, at->role, at->stride * left});
    if (left > 1) continue;
    ++at;
    left = at == from.end() ? 1 : at->size;
  }
  return result;
}

// The number of heads, if the order is (batch, row, heads, column); 0: any.
std::optional<std::int64_t> heads_of(const Axes& axes) {
  std::int64_t expected[kNumRoles] = {1, 1, 1};
  std::optional<std::int64_t> heads;
  const Axes order = joined(axes);
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (axis->stride != expected[axis->role]) return std::nullopt;
    const bool is_late_column = axis->role == kColumn && axis != order.rbegin();
    if (is_late_column || (axis->role == kRow && heads)) return std::nullopt;
    if (axis->role == kRow) heads = expected[kBatch];
    expected[axis->role] *= axis->size;
  }
  return heads.value_or(0);
}

// Goes from op to op and notes where the matrices lie so that they can be taken from there.
class Walker {
 public:
  explicit Walker(Axes axes) : axes_(std::move(axes)) {}

  void note(Value* value) {
    if (const auto heads = heads_of(axes_)) places_.push_back({value, *heads, factor_, copies_});
  }

  // To the other side of an op that moves elements; whether it is one that can be passed.
  bool passes(const Op& op, bool is_backwards) {
    if (op.is("reshape")) {
      const auto other = reshaped(axes_, (is_backwards ? op.input(0) : op.output())->shape());
      if (other) axes_ = *other;
      return other.has_value();
    }
    if (!op.is("transpose")) return false;
    const auto& permutation = op.attrs<TransposeAttrs>().permutation;
    Axes other(axes_.size());
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const auto axis = static_cast<std::size_t>(permutation[i]);
      other[is_backwards ? axis : i] = axes_[is_backwards ? i : axis];
    }
    axes_ = std::move(other);
    ++copies_;
    return true;
  }

  void pass_factor(double factor) {
    factor_ *= factor;
    ++copies_;
  }

  std::int64_t copies() const { return copies_; }

  std::vector<MatrixPlace> finish() {
    for (MatrixPlace& place : places_) place.copies = copies_ - place.copies;
    return std::move(places_);
  }

 private:
  Axes axes_;
  double factor_ = 1;
  std::int64_t copies_ = 0;
  std::vector<MatrixPlace> places_;
};

// The gradient by this value is shown to somebody: whoever reads the value has to go on reading it.
bool is_hooked(const Value& value) {
  return std::any_of(value.users().begin(), value.users().end(), [](const Op* op) { return op->is("gradient_hook"); });
}

}  // namespace

Value* scaled_operand(const Op& op, double& factor) {
  const bool divides = op.is("div");
  if (!divides && !op.is("mul")) return nullptr;
  for (std::size_t i : {0, 1}) {
    const auto number = number_of(*op.input(1 - i));
    if (!number || op.input(i)->type() != op.output()->type() || (divides && i == 1)) continue;
    factor = divides ? 1 / *number : *number;
    return std::isfinite(factor) ? op.input(i) : nullptr;
  }
  return nullptr;
}

ProductMatrices ProductMatrices::read_by(const Op& product, std::size_t input, bool is_transposed,
                                         bool passes_factors) {
  ProductMatrices result(product.input(input), is_transposed);
  Walker walker(axes_of(result.value_->shape(), is_transposed));
  for (Value* value = result.value_;;) {
    walker.note(value);
    const Op* op = value->producer();
    if (op == nullptr || !belong_together(*op, product) || is_hooked(*value)) break;
    double factor = 1;
    if (Value* scaled = passes_factors ? scaled_operand(*op, factor) : nullptr) {
      walker.pass_factor(factor);
      value = scaled;
    } else if (walker.passes(*op, true)) {
      value = op->input(0);
    } else {
      break;
    }
  }
  result.copies_ = walker.copies();
  result.places_ = walker.finish();
  return result;
}

ProductMatrices ProductMatrices::made_by(const Op& product, bool is_transposed) {
  ProductMatrices result(product.output(), is_transposed);
  Walker walker(axes_of(result.value_->shape(), is_transposed));
  for (Value* value = result.value_;;) {
    walker.note(value);
    if (value->users().size() != 1 || value->is_output() || value->is_gradient()) break;
    const Op* op = value->users().front();
    if (!belong_together(*op, product) || !walker.passes(*op, false)) break;
    value = op->output();
  }
  result.copies_ = walker.copies();
  result.places_ = walker.finish();
  return result;
}

std::int64_t ProductMatrices::rows() const {
  const Shape& shape = value_->shape();
  return shape[shape.size() - (is_transposed_ ? 1 : 2)];
}

std::int64_t ProductMatrices::columns() const {
  const Shape& shape = value_->shape();
  return shape[shape.size() - (is_transposed_ ? 2 : 1)];
}

const MatrixPlace* ProductMatrices::find(std::int64_t heads) const {
  const auto found = std::find_if(places_.rbegin(), places_.rend(),
                                  [&](const auto& place) { return place.heads == heads || place.heads == 0; });
  return found == places_.rend() ? nullptr : &*found;
}

std::int64_t ProductMatrices::copied(std::int64_t heads) const {
  const MatrixPlace* place = find(heads);
  return rows() * columns() * (place != nullptr ? place->copies : copies_ + 1);
}

Value* ProductMatrices::lay_out(Builder& b, std::int64_t heads, double& scale) const {
  const std::int64_t samples = value_->type().numel() / (rows() * columns() * heads);
  if (const MatrixPlace* place = find(heads)) {
    scale *= place->factor;
    return build::reshape(b, place->value, {samples, rows(), heads, columns()});
  }
  if (is_transposed_) {
    return build::transpose(b, build::reshape(b, value_, {samples, heads, columns(), rows()}), {0, 3, 1, 2});
  }
  return build::transpose(b, build::reshape(b, value_, {samples, heads, rows(), columns()}), {0, 2, 1, 3});
}

void ProductMatrices::replace(Builder& b, Value* by) const {
  if (const MatrixPlace* place = find(by->shape()[2])) {
    return replace_value(b.graph(), place->value, build::reshape(b, by, place->value->shape()));
  }
  by = is_transposed_ ? build::transpose(b, by, {0, 2, 3, 1}) : build::transpose(b, by, {0, 2, 1, 3});
  replace_value(b.graph(), value_, build::reshape(b, by, value_->shape()));
}

}  // namespace aspen
