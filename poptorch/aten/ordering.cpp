// Sorting, ranks and running totals along one axis. Sorting is stable and puts NaN last.
#include <limits>

#include "aspen/ops/reduce/reduce.h"
#include "aspen/ops/sort/sort.h"
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

struct Sorted {
  Expr values, indices;
};

// The first so many of each line; -1: all.
Sorted sort(Expr x, std::int64_t axis, bool descending, std::int64_t first = -1) {
  // Bool sorts as a number.
  Expr key = x.dtype() == DType::kBool ? cast(x, DType::kU8) : x;
  aspen::Op* op = x.b->emit("sort", {key.v}, aspen::SortAttrs{axis, descending, first});
  return {cast({x.b, op->output(0)}, x.dtype()), {x.b, op->output(1)}};
}

// self with at least one axis; results go back to its rank.
struct Line {
  Expr x;
  std::int64_t axis;
  bool scalar;

  Expr undo(Expr y) const { return scalar ? reshape(y, {}) : y; }
};

Line line(Call& call, std::string_view axis_name = "dim") {
  Expr x = expr(call, call.value("self"));
  std::int64_t axis = axis_argument(call, axis_name, x.shape());
  bool scalar = x.rank() == 0;
  return {scalar ? reshape(x, {1}) : x, axis, scalar};
}

void give(Call& call, const Line& l, Expr values, Expr indices) {
  call.result(l.undo(values).v, call.dtype("self"));
  call.result(l.undo(indices).v, ScalarType::Long);
}

// sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices), sort.stable(... bool? stable
// ...)
void sort_of(Call& call) {
  Line l = line(call);
  Sorted s = sort(l.x, l.axis, call.boolean("descending"));
  give(call, l, s.values, s.indices);
}

// argsort(Tensor self, int dim=-1, bool descending=False), argsort.stable(...)
void argsort(Call& call) {
  Line l = line(call);
  call.result(l.undo(sort(l.x, l.axis, call.boolean("descending")).indices).v, ScalarType::Long);
}

// msort(Tensor self)
void msort(Call& call) {
  Expr x = expr(call, call.value("self"));
  call.result((x.rank() == 0 ? x : sort(x, 0, false).values).v, call.dtype("self"));
}

// topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)
void topk(Call& call) {
  Line l = line(call);
  std::int64_t k = call.integer("k"), size = l.x.size(l.axis);
  if (k < 0 || k > size)
    throw UserError("[topk] k = {} for axis {} of size {}; expected 0 <= k <= {}.", k, l.axis, size, size);
  Sorted s = sort(l.x, l.axis, call.boolean("largest"), k);
  give(call, l, s.values, s.indices);
}

// The element at a position of the sorted line, and where it came from. `position`: shape of x with size 1 along axis.
void pick(Call& call, const Line& l, const Sorted& s, Expr position, bool keep) {
  Expr index = gather(s.indices, position, l.axis), value = gather(l.x, index, l.axis);
  if (!keep) value = squeeze(value, l.axis), index = squeeze(index, l.axis);
  give(call, l, keep ? value : reshape(value, index.shape()), index);
}

bool keeps(const Call& call, const Line& l) { return call.boolean("keepdim") || l.scalar; }

Shape one_along(const Line& l) {
  Shape shape = l.x.shape();
  shape[l.axis] = 1;
  return shape;
}

// kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)
void kthvalue(Call& call) {
  Line l = line(call);
  std::int64_t k = call.integer("k"), size = l.x.size(l.axis);
  if (k < 1 || k > size)
    throw UserError("[kthvalue] k = {} for axis {} of size {}; expected 1 <= k <= {}.", k, l.axis, size, size);
  Expr position = full(call.b, DType::kI32, one_along(l), static_cast<double>(k - 1));
  pick(call, l, sort(l.x, l.axis, false), position, keeps(call, l));
}

// Where the median of a sorted line stands: the lower of the two middles. A NaN wins (it stands at the first NaN), or,
// ignored, leaves a shorter line.
Expr median_position(const Line& l, bool ignore_nan) {
  double size = static_cast<double>(l.x.size(l.axis));
  Builder& b = *l.x.b;
  if (!aspen::is_floating(l.x.dtype())) return full(b, DType::kI32, one_along(l), std::floor((size - 1) / 2));
  Expr nans = sum(cast(isnan(l.x), DType::kI32), {l.axis}, true);
  Expr numbers = size - nans;
  if (ignore_nan) return clamp(binary("div_floor", numbers - 1.0, 2.0), 0, size);
  return where(nans == 0.0, std::floor((size - 1) / 2), numbers);
}

// median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices), nanmedian.dim(...)
Handler median_along(bool ignore_nan) {
  return [ignore_nan](Call& call) {
    Line l = line(call);
    pick(call, l, sort(l.x, l.axis, false), median_position(l, ignore_nan), keeps(call, l));
  };
}

// median(Tensor self), nanmedian(Tensor self)
Handler median(bool ignore_nan) {
  return [ignore_nan](Call& call) {
    Expr x = expr(call, call.value("self"));
    Line l{reshape(x, {x.numel()}), 0, true};
    Expr values = gather(sort(l.x, 0, false).values, median_position(l, ignore_nan), 0);
    call.result(reshape(values, {}).v, call.dtype("self"));
  };
}

// cumsum(Tensor self, int dim, *, ScalarType? dtype=None), cumprod(...): cast first, then accumulate
Handler running(std::string op) {
  return [op](Call& call) {
    ScalarType type = call.dtype_option("dtype").value_or(sum_type(call.dtype("self")));
    Value* x = operand(call, "self", type);
    std::int64_t axis = axis_argument(call, "dim", x->shape());
    call.result(x->rank() == 0 ? x : call.b.make(op, {x}, aspen::ScanAttrs{axis, false, false}), type);
  };
}

// x moved by `shift` towards the end of an axis, `fill` coming in.
Expr shifted(Expr x, std::int64_t axis, std::int64_t shift, double fill) {
  return slice(pad_axis(x, axis, shift, 0, fill), axis, 0, x.size(axis));
}

// cummax(Tensor self, int dim) -> (Tensor values, Tensor indices), cummin(...): in log2(n) rounds each position learns
// the best of twice as many predecessors. Of equals the last counts; NaN beats everything.
Handler running_extreme(bool largest) {
  return [largest](Call& call) {
    Line l = line(call);
    std::int64_t size = l.x.size(l.axis);
    Expr x = l.x.dtype() == DType::kBool ? cast(l.x, DType::kU8) : l.x;
    bool floating = aspen::is_floating(x.dtype());
    Expr index = broadcast(positions(call.b, x.rank(), l.axis, size), x.shape());
    for (std::int64_t shift = 1; shift < size; shift *= 2) {
      Expr before = clamp(shifted(index, l.axis, shift, 0), 0, static_cast<double>(size - 1));
      Expr mine = gather(detach(x), index, l.axis), other = gather(detach(x), before, l.axis);
      Expr better = largest ? mine >= other : mine <= other;
      if (floating) better = isnan(mine) || (better && !isnan(other));
      // The first `shift` positions have seen everything already.
      Expr started = positions(call.b, x.rank(), l.axis, size) < static_cast<double>(shift);
      index = where(better || started, index, before);
    }
    give(call, l, gather(l.x, index, l.axis), index);
  };
}

// logcumsumexp(Tensor self, int dim): the same rounds with log(exp(x) + exp(y))
void logcumsumexp(Call& call) {
  Line l = line(call);
  Expr y = in_float(l.x);
  for (std::int64_t shift = 1; shift < l.x.size(l.axis); shift *= 2) {
    y = logaddexp(y, shifted(y, l.axis, shift, -std::numeric_limits<double>::infinity()));
  }
  call.result(l.undo(cast(y, l.x.dtype())).v, call.dtype("self"));
}

// mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices): the smallest of the most
// frequent elements, and where it stands last. All pairs are compared: lines are short.
void mode(Call& call) {
  Line l = line(call);
  Axes order = all_axes(l.x.shape());
  std::swap(order[static_cast<std::size_t>(l.axis)], order.back());
  Expr x = transpose(l.x, order);
  Expr key = x.dtype() == DType::kBool ? cast(x, DType::kU8) : x;
  std::int64_t last = x.rank() - 1, size = x.size(last);
  Expr count = sum(cast(unsqueeze(key, last) == unsqueeze(key, last + 1), DType::kI32), {last + 1});
  Expr frequent = count == reduce_max(count, {last}, true);
  Expr value = reduce_min(where(frequent, detach(key), reduce_max(detach(key), {last}, true)), {last}, true);
  Expr place =
      where(key == value && frequent, positions(call.b, x.rank(), last, size), full(call.b, DType::kI32, {}, -1));
  Expr index = clamp(reduce_max(place, {last}, true), 0, static_cast<double>(size - 1));
  Expr values = gather(x, index, last);
  auto shaped = [&](Expr y) {
    y = transpose(y, order);
    return call.boolean("keepdim") && !l.scalar ? y : l.scalar ? l.undo(y) : squeeze(y, l.axis);
  };
  call.result(shaped(values).v, call.dtype("self"));
  call.result(shaped(index).v, ScalarType::Long);
}

}  // namespace

void register_ordering(HandlerTable& table) {
  table.add("aten::mode", mode);
  table.add("aten::sort", sort_of);
  table.add("aten::sort.stable", sort_of);
  table.add("aten::argsort", argsort);
  table.add("aten::argsort.stable", argsort);
  table.add("aten::msort", msort);
  table.add("aten::topk", topk);
  table.add("aten::kthvalue", kthvalue);
  table.add("aten::median", median(false));
  table.add("aten::median.dim", median_along(false));
  table.add("aten::nanmedian", median(true));
  table.add("aten::nanmedian.dim", median_along(true));
  table.add("aten::cumsum", running("cumsum"));
  table.add("aten::cumprod", running("cumprod"));
  table.add("aten::cummax", running_extreme(true));
  table.add("aten::cummin", running_extreme(false));
  table.add("aten::logcumsumexp", logcumsumexp);
}

}  // namespace poptorch
