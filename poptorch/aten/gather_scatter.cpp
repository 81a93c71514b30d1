// Gathering and scattering along one axis, by element (gather, scatter) or by row (index_select, index_add).
#include <limits>

#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

// Rank 0 is treated as one element; `shape` is what the result goes back to.
Expr at_least_1d(Expr x) { return x.rank() == 0 ? reshape(x, {1}) : x; }

Expr index_argument(Call& call, std::string_view argument = "index") {
  return at_least_1d(cast(expr(call, call.value(argument)), DType::kI32));
}

// The rows that an index names when it is one row index repeated over all other axes, as scatter_add over expanded
// indices has it; nullptr otherwise. Row operations are far cheaper than those by element.
Value* repeated_rows(const Expr& index, const Shape& other, std::int64_t axis, Builder& b) {
  for (std::size_t i = 0; i < other.size(); ++i) {
    if (static_cast<std::int64_t>(i) != axis && index.shape()[i] != other[i]) return nullptr;
  }
  if (other.size() == 1) return index.v;
  const aspen::Op* op = index.v->producer();
  if (op == nullptr || !op->is("broadcast")) return nullptr;
  Value* source = op->input(0);
  Shape expected(index.shape().size(), 1);
  expected[axis] = index.size(axis);
  if (source->shape() != expected) return nullptr;
  return build::reshape(b, source, {index.size(axis)});
}

// gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False)
void gather_of(Call& call) {
  Expr x = at_least_1d(expr(call, call.value("self"))), index = index_argument(call);
  std::int64_t axis = axis_argument(call, "dim", x.shape());
  Value* rows = repeated_rows(index, x.shape(), axis, call.b);
  Expr y = rows != nullptr ? take(x, expr(call, rows), axis) : gather(x, index, axis);
  call.result(reshape(y, call.value("index")->shape()).v, call.dtype("self"));
}

Expr scatter_best(Call& call, Expr x, Expr index, Expr update, std::int64_t axis, const std::string& mode) {
  Value* rows = repeated_rows(index, x.shape(), axis, call.b);
  return rows != nullptr ? scatter_rows(x, expr(call, rows), update, axis, mode)
                         : scatter(x, index, update, axis, mode);
}

// The part of src that the index covers.
Expr prefix(Expr src, const Shape& shape) {
  for (auto axis : all_axes(shape)) src = slice(src, axis, 0, shape[axis]);
  return src;
}

Expr source(Call& call, const Expr& x, const Expr& index) {
  if (call.has("value")) return broadcast(full(call.b, x.dtype(), {}, call.number("value")), index.shape());
  return prefix(at_least_1d(expr(call, operand(call, "src", call.dtype("self")))), index.shape());
}

double identity_of(DType dtype, const std::string& mode) {
  if (mode == "add") return 0;
  if (mode == "mul") return 1;
  double sign = mode == "max" ? -1 : 1;
  if (aspen::is_floating(dtype)) return sign * std::numeric_limits<double>::infinity();
  return aspen::dispatch(dtype, [&](auto tag) {
    using Limits = std::numeric_limits<typename decltype(tag)::type>;
    return static_cast<double>(mode == "max" ? Limits::lowest() : Limits::max());
  });
}

struct Scattering {
  Expr x, index, update;
  std::int64_t axis;
};

Scattering scattering(Call& call) {
  Expr x = at_least_1d(expr(call, call.value("self"))), index = index_argument(call);
  return {x, index, source(call, x, index), axis_argument(call, "dim", x.shape())};
}

void give(Call& call, Expr y) { call.result(reshape(y, call.value("self")->shape()).v, call.dtype("self")); }

// scatter.src(Tensor self, int dim, Tensor index, Tensor src), scatter.value(Tensor self, int dim, Tensor index, Scalar
// value), scatter_add(Tensor self, int dim, Tensor index, Tensor src)
Handler scatter_mode(std::string mode) {
  return [mode](Call& call) {
    Scattering s = scattering(call);
    give(call, scatter_best(call, s.x, s.index, s.update, s.axis, mode));
  };
}

// scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce), scatter.value_reduce(... Scalar value
// ...)
void scatter_named(Call& call) {
  std::string reduce = call.text("reduce");
  if (reduce != "add" && reduce != "multiply") {
    throw UserError(
        "[scatter] unknown reduce \"{}\"; the names are \"add\" and \"multiply\" (see scatter_reduce for more).",
        reduce);
  }
  scatter_mode(reduce == "add" ? "add" : "mul")(call);
}

// Reduction names of scatter_reduce and index_reduce.
std::string mode_of(const std::string& who, const std::string& reduce) {
  if (reduce == "sum" || reduce == "mean") return "add";
  if (reduce == "prod") return "mul";
  if (reduce == "amax") return "max";
  if (reduce == "amin") return "min";
  throw UserError("[{}] unknown reduce \"{}\"; the names are sum, mean, prod, amax and amin.", who, reduce);
}

// `put(x, update, mode)` scatters; without include_self the places touched start from the identity of the reduction.
template <class Put>
Expr scatter_reduced(Call& call, Expr x, Expr update, const Put& put) {
  std::string reduce = call.text("reduce"), mode = mode_of(call.name(), reduce);
  bool include_self = call.boolean("include_self");
  auto neutral = [&](Expr start, double value) { return put(start, full_like(update, value), "set"); };
  Expr start = include_self ? x : neutral(x, identity_of(x.dtype(), mode));
  Expr y = put(start, update, mode);
  if (reduce != "mean") return y;
  Expr ones = full_like(x, 1);
  Expr count = put(include_self ? ones : neutral(ones, 0), full_like(update, 1), "add");
  return aspen::is_floating(x.dtype()) ? y / count : binary("div_floor", y, count);
}

// scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)
void scatter_reduce(Call& call) {
  Scattering s = scattering(call);
  give(call, scatter_reduced(call, s.x, s.update, [&](Expr x, Expr update, const std::string& mode) {
         return scatter_best(call, x, s.index, update, s.axis, mode);
       }));
}

// index_select(Tensor self, int dim, Tensor index)
void index_select(Call& call) {
  Expr x = at_least_1d(expr(call, call.value("self")));
  Expr y = take(x, index_argument(call), axis_argument(call, "dim", x.shape()));
  call.result((call.value("self")->rank() == 0 ? reshape(y, {}) : y).v, call.dtype("self"));
}

// index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1)
void index_add(Call& call) {
  Expr x = at_least_1d(expr(call, call.value("self")));
  Expr update = at_least_1d(expr(call, operand(call, "source", call.dtype("self"))));
  double alpha = call.number("alpha");
  if (alpha != 1) update = update * alpha;
  give(call, scatter_rows(x, index_argument(call), update, axis_argument(call, "dim", x.shape()), "add"));
}

// index_copy(Tensor self, int dim, Tensor index, Tensor source)
void index_copy(Call& call) {
  Expr x = at_least_1d(expr(call, call.value("self")));
  Expr update = at_least_1d(expr(call, operand(call, "source", call.dtype("self")))), index = index_argument(call);
  std::int64_t axis = axis_argument(call, "dim", x.shape());
  if (update.rank() < x.rank()) update = unsqueeze(update, axis);
  give(call, scatter_rows(x, index, update, axis, "set"));
}

// index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value), index_fill.int_Tensor(... Tensor value)
void index_fill(Call& call) {
  Expr x = at_least_1d(expr(call, call.value("self")));
  std::int64_t axis = axis_argument(call, "dim", x.shape());
  Expr index = wrap_index(index_argument(call), x.size(axis));
  Shape shape = x.shape();
  shape[axis] = index.numel();
  Expr value = expr(call, operand(call, "value", call.dtype("self")));
  give(call, scatter_rows(x, index, broadcast(value, shape), axis, "set"));
}

// index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)
void index_reduce(Call& call) {
  Expr x = at_least_1d(expr(call, call.value("self"))), index = index_argument(call);
  Expr update = at_least_1d(expr(call, operand(call, "source", call.dtype("self"))));
  std::int64_t axis = axis_argument(call, "dim", x.shape());
  give(call, scatter_reduced(call, x, update, [&](Expr start, Expr rows, const std::string& mode) {
         return scatter_rows(start, index, rows, axis, mode);
       }));
}

// take(Tensor self, Tensor index): positions in the flattened tensor
void take_flat(Call& call) {
  Expr x = expr(call, call.value("self"));
  Expr index = wrap_index(cast(expr(call, call.value("index")), DType::kI32), x.numel());
  call.result(take(reshape(x, {x.numel()}), index, 0).v, call.dtype("self"));
}

// put(Tensor self, Tensor index, Tensor source, bool accumulate=False)
void put_flat(Call& call) {
  Expr x = expr(call, call.value("self"));
  Expr index = wrap_index(cast(expr(call, call.value("index")), DType::kI32), x.numel());
  Expr update = reshape(expr(call, operand(call, "source", call.dtype("self"))), index.shape());
  give(call, scatter_rows(reshape(x, {x.numel()}), index, update, 0, call.boolean("accumulate") ? "add" : "set"));
}

}  // namespace

void register_gather_scatter(HandlerTable& table) {
  table.add("aten::gather", gather_of);
  table.add("aten::scatter.src", scatter_mode("set"));
  table.add("aten::scatter.value", scatter_mode("set"));
  table.add("aten::scatter_add", scatter_mode("add"));
  table.add("aten::scatter.reduce", scatter_named);
  table.add("aten::scatter.value_reduce", scatter_named);
  table.add("aten::scatter_reduce.two", scatter_reduce);
  table.add("aten::index_select", index_select);
  table.add("aten::index_add", index_add);
  table.add("aten::index_copy", index_copy);
  table.add("aten::index_fill.int_Scalar", index_fill);
  table.add("aten::index_fill.int_Tensor", index_fill);
  table.add("aten::index_reduce", index_reduce);
  table.add("aten::take", take_flat);
  table.add("aten::put", put_flat);
}

}  // namespace poptorch
