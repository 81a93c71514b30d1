// Tensors put together, repeated and rearranged as a whole; all of these are copies.
#include <c10/core/WrapDimMinimal.h>

#include <numeric>

#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

std::vector<Expr> promoted_list(Call& call, ScalarType type) {
  std::vector<Expr> list;
  for (Value* value : call.values("tensors")) list.push_back(expr(call, build::cast(call.b, value, graph_dtype(type))));
  if (list.empty()) throw UserError("[{}] needs at least one tensor.", call.name());
  return list;
}

// cat(Tensor[] tensors, int dim=0): empty vectors are skipped, whatever the rank of the others
void cat(Call& call) {
  ScalarType type = call.result_type({"tensors"});
  std::vector<Expr> kept;
  for (const Expr& x : promoted_list(call, type)) {
    if (x.shape() != Shape{0}) kept.push_back(x);
  }
  if (kept.empty()) return call.result(build::full(call.b, graph_dtype(type), {0}, 0), type);
  std::int64_t axis = aspen::normalize_axis(call.integer("dim"), kept[0].shape(), "cat");
  call.result(concat(kept, axis).v, type);
}

// stack(Tensor[] tensors, int dim=0)
void stack(Call& call) {
  ScalarType type = call.result_type({"tensors"});
  std::vector<Expr> list = promoted_list(call, type);
  Shape larger(list[0].shape().size() + 1, 1);
  std::int64_t axis = axis_argument(call, "dim", larger);
  for (const Expr& x : list) {
    if (x.shape() == list[0].shape()) continue;
    throw UserError("[stack] shapes {} and {} differ; all tensors need the same.", to_string(list[0].shape()),
                    to_string(x.shape()));
  }
  for (Expr& x : list) x = unsqueeze(x, axis);
  call.result(concat(list, axis).v, type);
}

// repeat(Tensor self, SymInt[] repeats): each axis seen as (times, size), the first of them broadcast
void repeat(Call& call) {
  std::vector<std::int64_t> repeats = call.integers("repeats");
  Expr x = expr(call, call.value("self"));
  if (repeats.size() < x.shape().size()) {
    throw UserError("[repeat] {} numbers for shape {}; expected at least one per axis.", repeats.size(),
                    to_string(x.shape()));
  }
  Shape shape(repeats.size() - x.shape().size(), 1);
  shape.insert(shape.end(), x.shape().begin(), x.shape().end());
  Shape apart, wide, result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    apart.insert(apart.end(), {1, shape[i]});
    wide.insert(wide.end(), {repeats[i], shape[i]});
    result.push_back(repeats[i] * shape[i]);
  }
  call.result(reshape(broadcast(reshape(x, apart), wide), result).v, call.dtype("self"));
}

// repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? output_size=None)
void repeat_interleave(Call& call) {
  Expr x = expr(call, call.value("self"));
  if (!call.has("dim")) x = reshape(x, {x.numel()});
  std::int64_t axis = call.has("dim") ? axis_argument(call, "dim", x.shape()) : 0, times = call.integer("repeats");
  Shape wide = x.shape(), result = x.shape();
  wide.insert(wide.begin() + axis + 1, times);
  result[axis] *= times;
  call.result(reshape(broadcast(unsqueeze(x, axis + 1), wide), result).v, call.dtype("self"));
}

// repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None): the length of
// the result must be known, from constant repeats or from output_size
void repeat_interleave_tensor(Call& call) {
  Expr x = expr(call, call.value("self"));
  if (!call.has("dim")) x = reshape(x, {x.numel()});
  std::int64_t axis = call.has("dim") ? axis_argument(call, "dim", x.shape()) : 0, size = x.size(axis);
  if (auto known = call.known("repeats")) {
    std::vector<double> repeats = read_numbers(*known);
    if (repeats.size() == 1) repeats.assign(static_cast<std::size_t>(size), repeats[0]);
    std::vector<std::int32_t> from;
    for (std::size_t i = 0; i < repeats.size(); ++i)
      from.insert(from.end(), static_cast<std::size_t>(repeats[i]), static_cast<std::int32_t>(i));
    return call.result(take(x, constant_i32(call.b, {static_cast<std::int64_t>(from.size())}, from), axis).v,
                       call.dtype("self"));
  }
  if (!call.has("output_size")) {
    throw UserError(
        "[repeat_interleave] the length of the result depends on the repeats, which are computed in the model; "
        "pass output_size.");
  }
  // Element j of the result comes from the number of running totals that are at most j.
  Expr repeats = broadcast(cast(expr(call, call.value("repeats")), DType::kI32), {size});
  Expr totals = reshape(cumsum(repeats, 0), {1, size});
  Expr place = positions(call.b, 2, 0, call.integer("output_size"));
  Expr from = sum(cast(totals <= place, DType::kI32), {1});
  call.result(take(x, from, axis).v, call.dtype("self"));
}

// flip(Tensor self, int[] dims)
void flip(Call& call) {
  Expr x = expr(call, call.value("self"));
  Axes axes = call.integers("dims");
  for (auto& axis : axes) axis = axis_in(axis, x.shape(), "flip");
  std::sort(axes.begin(), axes.end());
  call.result((x.rank() == 0 ? x : reverse(x, axes)).v, call.dtype("self"));
}

// Shifts by axis.
Expr rolled(Expr x, const std::map<std::int64_t, std::int64_t>& shifts) {
  PlacesByAxis places;
  for (auto [axis, shift] : shifts) {
    std::int64_t size = x.size(axis);
    if (size == 0 || shift % size == 0) continue;
    std::vector<std::int64_t>& along = places[axis];
    for (std::int64_t i = 0; i < size; ++i) along.push_back(((i - shift) % size + size) % size);
  }
  return remap(x, places);
}

// roll(Tensor self, int[1] shifts, int[1] dims=[]): without dims the flattened tensor rolls
void roll(Call& call) {
  Expr x = expr(call, call.value("self"));
  std::vector<std::int64_t> shifts = call.integers("shifts"), axes = call.integers("dims");
  if (axes.empty() && shifts.size() == 1) {
    Expr y = rolled(reshape(x, {x.numel()}), {{0, shifts[0]}});
    return call.result(reshape(y, x.shape()).v, call.dtype("self"));
  }
  if (shifts.size() != axes.size()) {
    throw UserError("[roll] {} shifts for {} axes; expected one shift per axis.", shifts.size(), axes.size());
  }
  // Torch's own text for a bad one, which programs look for.
  const auto rank = static_cast<std::int64_t>(x.shape().size());
  std::map<std::int64_t, std::int64_t> by_axis;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::int64_t axis = c10::maybe_wrap_dim(axes[i], rank);
    if (rank > 0) by_axis[axis] += shifts[i];
  }
  call.result(rolled(x, by_axis).v, call.dtype("self"));
}

// rot90(Tensor self, int k=1, int[] dims=[0, 1]): by quarter turns from the first axis towards the second
void rot90(Call& call) {
  Expr x = expr(call, call.value("self"));
  Axes axes = call.integers("dims");
  if (axes.size() != 2) throw UserError("[rot90] {} axes were named; expected 2.", axes.size());
  std::int64_t a = axis_in(axes[0], x.shape(), "rot90"), b = axis_in(axes[1], x.shape(), "rot90");
  Axes swapped = all_axes(x.shape());
  std::swap(swapped[a], swapped[b]);
  switch (((call.integer("k") % 4) + 4) % 4) {
    case 1: x = transpose(reverse(x, {b}), swapped); break;
    case 2: x = reverse(x, {std::min(a, b), std::max(a, b)}); break;
    case 3: x = reverse(transpose(x, swapped), {b}); break;
    default: break;
  }
  call.result(x.v, call.dtype("self"));
}

// block_diag(Tensor[] tensors)
void block_diag(Call& call) {
  ScalarType type = call.result_type({"tensors"});
  std::vector<Expr> blocks = promoted_list(call, type);
  std::int64_t width = 0, left = 0;
  for (Expr& x : blocks) {
    if (x.rank() > 2)
      throw UserError("[block_diag] takes tensors of at most 2 axes, not shape {}.", to_string(x.shape()));
    x = reshape(x, x.rank() == 2 ? x.shape() : Shape{1, x.numel()});
    width += x.size(1);
  }
  for (Expr& x : blocks) {
    std::int64_t own = x.size(1);
    x = pad_axis(x, 1, left, width - left - own);
    left += own;
  }
  call.result(concat(blocks, 0).v, type);
}

}  // namespace

void register_joining(HandlerTable& table) {
  table.add("aten::cat", cat);
  table.add("aten::stack", stack);
  table.add("aten::repeat", repeat);
  table.add("aten::repeat_interleave.self_int", repeat_interleave);
  table.add("aten::repeat_interleave.self_Tensor", repeat_interleave_tensor);
  table.add("aten::flip", flip);
  table.add("aten::roll", roll);
  table.add("aten::rot90", rot90);
  table.add("aten::block_diag", block_diag);
}

}  // namespace poptorch
