// Advanced indexing: x[i, :, j] and x[i, :, j] = v. The indexed axes are brought together and merged into one, so
// that a single row operation with one linear index does the work.
#include "aspen/ops/source/source.h"
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

bool is_mask(const Value* index) {
  return index != nullptr && (index->dtype() == DType::kBool || index->dtype() == DType::kU8);
}

// Positions of the set elements of a mask whose contents are constant, one index per axis; nothing otherwise.
std::vector<Expr> constant_positions(Builder& b, const Value* mask) {
  const aspen::Op* op = mask->producer();
  if (op == nullptr || !op->is("constant")) return {};
  const auto& bytes = *op->attrs<aspen::ConstantAttrs>().data.bytes;
  std::vector<std::vector<std::int32_t>> columns(mask->shape().size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == std::byte{0}) continue;
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t axis = columns.size(); axis-- > 0;) {
      columns[axis].push_back(static_cast<std::int32_t>(rest % mask->shape()[axis]));
      rest /= mask->shape()[axis];
    }
  }
  std::vector<Expr> positions;
  for (const auto& column : columns)
    positions.push_back(constant_i32(b, {static_cast<std::int64_t>(column.size())}, column));
  return positions;
}

// One index per axis of x (nullptr: the whole axis).
struct Plan {
  Axes permutation;        // brings the indexed axes together
  std::int64_t axis = 0;   // where they are then
  Shape permuted, merged;  // shapes before and after they are merged into one
  Expr index;              // linear position along the merged axis

  Axes inverse() const {
    Axes axes(permutation.size());
    for (std::size_t i = 0; i < permutation.size(); ++i) axes[permutation[i]] = static_cast<std::int64_t>(i);
    return axes;
  }
};

Plan plan_of(Expr x, std::vector<Value*> indices) {
  indices.resize(x.shape().size(), nullptr);
  Axes indexed, others;
  Shape common;
  for (auto axis : all_axes(x.shape())) {
    (indices[axis] != nullptr ? indexed : others).push_back(axis);
    if (indices[axis] != nullptr) common = aspen::broadcast_shapes(common, indices[axis]->shape(), "index");
  }
  // Neighbours stay where they are; otherwise the indexed axes go first, as in torch and numpy.
  bool together = indexed.back() - indexed.front() + 1 == static_cast<std::int64_t>(indexed.size());
  Plan plan;
  plan.axis = together ? indexed.front() : 0;
  plan.permutation.assign(others.begin(), others.begin() + plan.axis);
  plan.permutation.insert(plan.permutation.end(), indexed.begin(), indexed.end());
  plan.permutation.insert(plan.permutation.end(), others.begin() + plan.axis, others.end());
  for (auto axis : plan.permutation) plan.permuted.push_back(x.size(axis));

  std::int64_t extent = 1;
  for (auto axis : indexed) {
    Expr index = wrap_index(cast(expr(*x.b, indices[axis]), DType::kI32), x.size(axis));
    plan.index =
        extent == 1 && axis == indexed.front() ? index : plan.index * static_cast<double>(x.size(axis)) + index;
    extent *= x.size(axis);
  }
  plan.index = broadcast(plan.index, common);
  plan.merged.assign(plan.permuted.begin(), plan.permuted.begin() + plan.axis);
  plan.merged.push_back(extent);
  plan.merged.insert(plan.merged.end(), plan.permuted.begin() + plan.axis + static_cast<std::int64_t>(indexed.size()),
                     plan.permuted.end());
  return plan;
}

// Replaces masks by positions; false if one of them is not known while capturing.
bool resolve_masks(Builder& b, std::vector<Value*>& indices) {
  std::vector<Value*> resolved;
  for (Value* index : indices) {
    if (!is_mask(index)) {
      resolved.push_back(index);
      continue;
    }
    std::vector<Expr> positions = constant_positions(b, index);
    if (positions.empty()) return false;
    for (const Expr& column : positions) resolved.push_back(column.v);
  }
  indices = std::move(resolved);
  return true;
}

bool indexes_nothing(const std::vector<Value*>& indices) {
  return std::all_of(indices.begin(), indices.end(), [](Value* index) { return index == nullptr; });
}

// index.Tensor(Tensor self, Tensor?[] indices)
void index_tensor(Call& call) {
  Expr x = expr(call, call.value("self"));
  std::vector<Value*> indices = call.values("indices");
  if (!resolve_masks(call.b, indices)) decline("the shape of a tensor read through a mask depends on the mask");
  if (indexes_nothing(indices)) return call.result(x.v, call.dtype("self"));
  Plan plan = plan_of(x, std::move(indices));
  Expr merged = reshape(transpose(x, plan.permutation), plan.merged);
  call.result(take(merged, plan.index, plan.axis).v, call.dtype("self"));
}

// x[:, mask] = v: the mask covers axes from `axis` on. v broadcasts against x with the masked axes as one of unknown
// length; if it has an entry per set element, the n-th set element takes entry n.
Expr put_by_mask(Expr x, Expr mask, std::int64_t axis, Expr v, bool accumulate) {
  std::int64_t trailing = x.rank() - axis - mask.rank();
  mask = cast(mask, DType::kBool);
  Shape wide(static_cast<std::size_t>(axis), 1);
  wide.insert(wide.end(), mask.shape().begin(), mask.shape().end());
  wide.insert(wide.end(), static_cast<std::size_t>(trailing), 1);

  std::int64_t along = v.rank() - 1 - trailing;  // the axis of v that runs over the set elements
  if (along >= 0 && v.size(along) != 1) {
    Expr order = cumsum(cast(reshape(mask, {mask.numel()}), DType::kI32), 0) - 1.0;
    v = take(v, reshape(clamp(order, 0, static_cast<double>(v.size(along) - 1)), mask.shape()), along);
  } else if (along >= 0) {
    Shape shape(v.shape().begin(), v.shape().begin() + along);
    shape.insert(shape.end(), mask.shape().size(), 1);
    shape.insert(shape.end(), v.shape().begin() + along + 1, v.shape().end());
    v = reshape(v, shape);
  }
  Expr places = reshape(mask, wide);
  return accumulate ? x + where(places, v, 0.0) : where(places, v, x);
}

Expr put(Call& call) {
  Expr x = expr(call, call.value("self"));
  Expr v = expr(call, operand(call, "values", call.dtype("self")));
  bool accumulate = call.boolean("accumulate");
  std::vector<Value*> indices = call.values("indices");
  if (indexes_nothing(indices)) return accumulate ? x + v : broadcast(v, x.shape());
  std::vector<Value*> given;
  std::int64_t first = 0, axis = 0;
  for (Value* index : indices) {
    if (index != nullptr && given.empty()) first = axis;
    if (index != nullptr) given.push_back(index);
    axis += is_mask(index) ? index->rank() : 1;
  }
  if (given.size() == 1 && is_mask(given[0])) return put_by_mask(x, expr(call, given[0]), first, v, accumulate);
  if (!resolve_masks(call.b, indices)) decline("a mask together with other indices");
  Plan plan = plan_of(x, std::move(indices));
  Expr merged = reshape(transpose(x, plan.permutation), plan.merged);
  Shape update(plan.merged.begin(), plan.merged.begin() + plan.axis);
  update.insert(update.end(), plan.index.shape().begin(), plan.index.shape().end());
  update.insert(update.end(), plan.merged.begin() + plan.axis + 1, plan.merged.end());
  // Leading axes of size 1 that the target lacks are dropped, as torch does.
  while (v.shape().size() > update.size() && v.size(0) == 1) v = squeeze(v, 0);
  Expr written = scatter_rows(merged, plan.index, broadcast(v, update), plan.axis, accumulate ? "add" : "set");
  return transpose(reshape(written, plan.permuted), plan.inverse());
}

// index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False)
void index_put(Call& call) { call.result(put(call).v, call.dtype("self")); }

// _index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False)
void index_put_in_place(Call& call) {
  call.write("self", put(call).v);
  call.same("self");
}

}  // namespace

void register_indexing(HandlerTable& table) {
  table.add("aten::index.Tensor", index_tensor);
  table.add("aten::index_put", index_put);
  table.add("aten::_index_put_impl_", index_put_in_place);
}

}  // namespace poptorch
