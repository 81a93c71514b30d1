#include "poptorch/aten/support/expression.h"

#include <cstring>
#include <limits>

#include "aspen/backends/api/convert.h"
#include "aspen/ops/index/index.h"
#include "aspen/ops/reduce/reduce.h"
#include "aspen/ops/remap/places.h"
#include "aspen/ops/shape/shape.h"
#include "aspen/ops/unary/unary.h"

namespace poptorch {

Expr unary(std::string_view op, Expr x) { return {x.b, build::unary(*x.b, op, x.v)}; }
Expr binary(std::string_view op, Expr x, Expr y) { return {x.b, build::binary(*x.b, op, x.v, y.v)}; }
Expr binary(std::string_view op, Expr x, double y) { return {x.b, build::binary(*x.b, op, x.v, y)}; }
Expr binary(std::string_view op, double x, Expr y) {
  return {y.b, build::binary(*y.b, op, build::scalar(*y.b, y.dtype(), x), y.v)};
}

Expr clamp(Expr x, double low, double high) { return {x.b, x.b->make("clamp", {x.v}, aspen::ClampAttrs{low, high})}; }
Expr bounded(Expr x, double low, double high) {
  return {x.b, x.b->make("clamp", {x.v}, aspen::ClampAttrs{low, high, true})};
}
Expr softplus(Expr x) { return {x.b, x.b->make("softplus", {x.v}, aspen::SoftplusAttrs{})}; }

// max + log1p(exp(-|x - y|)); equal infinities have no difference.
Expr logaddexp(Expr x, Expr y) {
  Expr same = x == y && isinf(x);
  Expr gap = where(same, 0.0, x) - where(same, 0.0, y);
  return where(same, x, max(x, y) + log1p(exp(-abs(gap))));
}

Expr where(Expr condition, Expr x, Expr y) { return {x.b, build::select(*x.b, condition.v, x.v, y.v)}; }
Expr where(Expr condition, Expr x, double y) { return where(condition, x, full(*x.b, x.dtype(), {}, y)); }
Expr where(Expr condition, double x, Expr y) { return where(condition, full(*y.b, y.dtype(), {}, x), y); }

Expr cast(Expr x, DType dtype) { return {x.b, build::cast(*x.b, x.v, dtype)}; }
Expr in_float(Expr x) { return aspen::is_narrow_float(x.dtype()) ? cast(x, DType::kF32) : x; }

Expr reshape(Expr x, Shape shape) { return {x.b, build::reshape(*x.b, x.v, std::move(shape))}; }
Expr transpose(Expr x, std::vector<std::int64_t> permutation) {
  return {x.b, build::transpose(*x.b, x.v, std::move(permutation))};
}
Expr broadcast(Expr x, Shape shape) { return {x.b, build::broadcast(*x.b, x.v, std::move(shape))}; }
Expr slice(Expr x, std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step) {
  return {x.b, build::slice(*x.b, x.v, axis, start, end, step)};
}
Expr select_row(Expr x, std::int64_t axis, std::int64_t index) {
  return {x.b, build::select_row(*x.b, x.v, axis, index)};
}
Expr unsqueeze(Expr x, std::int64_t axis) { return {x.b, build::unsqueeze(*x.b, x.v, axis)}; }
Expr squeeze(Expr x, std::int64_t axis) { return {x.b, build::squeeze(*x.b, x.v, axis)}; }
Expr concat(const std::vector<Expr>& xs, std::int64_t axis) {
  std::vector<Value*> values;
  for (const Expr& x : xs) values.push_back(x.v);
  return {xs.at(0).b, build::concat(*xs[0].b, std::move(values), axis)};
}

Expr pad(Expr x, Shape low, Shape high, double value) {
  auto nothing = [](const Shape& amounts) {
    return std::all_of(amounts.begin(), amounts.end(), [](auto amount) { return amount == 0; });
  };
  if (nothing(low) && nothing(high)) return x;
  Shape interior(low.size(), 0);
  return {x.b, x.b->make("pad", {x.v}, aspen::PadAttrs{std::move(low), std::move(high), std::move(interior), value})};
}

Expr pad_axis(Expr x, std::int64_t axis, std::int64_t low, std::int64_t high, double value) {
  Shape lows(x.shape().size(), 0), highs(x.shape().size(), 0);
  lows[axis] = low;
  highs[axis] = high;
  return pad(x, std::move(lows), std::move(highs), value);
}

aspen::RemapAttrs remap_attrs(const PlacesByAxis& places) {
  aspen::RemapAttrs attrs;
  for (const auto& [axis, along] : places) aspen::add_runs(attrs, axis, along);
  return attrs;
}
Expr remap(Expr x, const PlacesByAxis& places) {
  return places.empty() ? x : Expr{x.b, x.b->make("remap", {x.v}, remap_attrs(places))};
}
Expr remap_grad(Expr g, const PlacesByAxis& places, Shape shape) {
  aspen::RemapAttrs attrs = remap_attrs(places);
  attrs.shape = std::move(shape);
  return {g.b, g.b->make("remap_grad", {g.v}, std::move(attrs))};
}
Expr reverse(Expr x, Axes axes) {
  if (axes.empty()) return x;
  return {x.b, x.b->make("reverse", {x.v}, aspen::ReverseAttrs{std::move(axes)})};
}

Expr sum(Expr x, Axes axes, bool keep) { return {x.b, build::reduce_sum(*x.b, x.v, std::move(axes), keep)}; }

Expr mean(Expr x, Axes axes, bool keep) {
  double count = 1;
  for (auto axis : axes) count *= static_cast<double>(x.size(axis));
  return sum(x, std::move(axes), keep) / count;
}

Expr reduce_max(Expr x, Axes axes, bool keep) {
  return {x.b, build::reduce(*x.b, "reduce_max", x.v, std::move(axes), keep)};
}
Expr reduce_min(Expr x, Axes axes, bool keep) {
  return {x.b, build::reduce(*x.b, "reduce_min", x.v, std::move(axes), keep)};
}

Expr cumsum(Expr x, std::int64_t axis, bool reverse) {
  return {x.b, x.b->make("cumsum", {x.v}, aspen::ScanAttrs{axis, reverse, false})};
}

Expr take(Expr x, Expr index, std::int64_t axis) {
  return {x.b, x.b->make("take", {x.v, index.v}, aspen::TakeAttrs{axis})};
}
Expr gather(Expr x, Expr index, std::int64_t axis) {
  return {x.b, x.b->make("gather", {x.v, index.v}, aspen::GatherAttrs{axis})};
}
Expr scatter(Expr x, Expr index, Expr update, std::int64_t axis, std::string mode) {
  return {x.b, x.b->make("scatter", {x.v, index.v, update.v}, aspen::ScatterAttrs{axis, std::move(mode)})};
}
Expr scatter_rows(Expr x, Expr index, Expr update, std::int64_t axis, std::string mode) {
  return {x.b, x.b->make("scatter_rows", {x.v, index.v, update.v}, aspen::ScatterAttrs{axis, std::move(mode)})};
}
Expr sum_rows(Expr x, Expr from, Expr to, std::int64_t rows) {
  return {x.b, x.b->make("sum_rows", {x.v, from.v, to.v}, aspen::SumRowsAttrs{rows})};
}
Expr wrap_index(Expr index, std::int64_t size) {
  return {index.b, index.b->make("wrap_index", {index.v}, aspen::WrapIndexAttrs{size})};
}
Expr check_range(Expr x, std::int64_t low, std::int64_t high, std::string who, std::string what, std::string size) {
  aspen::CheckRangeAttrs attrs{low, high, std::move(who), std::move(what), std::move(size)};
  return {x.b, x.b->make("check_range", {x.v}, std::move(attrs))};
}

Expr full(Builder& b, DType dtype, Shape shape, double value) {
  return {&b, build::full(b, dtype, std::move(shape), value)};
}
Expr full_like(Expr like, double value) { return full(*like.b, like.dtype(), like.shape(), value); }
Expr iota(Builder& b, DType dtype, std::int64_t size, double start, double step) {
  return {&b, build::iota(b, dtype, size, start, step)};
}

Expr positions(Builder& b, std::int64_t rank, std::int64_t axis, std::int64_t size) {
  Shape shape(static_cast<std::size_t>(rank), 1);
  shape[axis] = size;
  return reshape(iota(b, DType::kI32, size), std::move(shape));
}

Expr constant(Builder& b, DType dtype, Shape shape, const std::vector<double>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * aspen::size_of(dtype));
  aspen::dispatch_stored(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      T element = aspen::convert<T>(numbers[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return {&b, build::constant(b, {dtype, std::move(shape)}, std::move(bytes))};
}

Expr constant_i32(Builder& b, Shape shape, const std::vector<std::int32_t>& numbers) {
  return {&b, build::constant_i32(b, shape, numbers)};
}

Expr dot(Expr x, Expr y, bool transpose_x, bool transpose_y) {
  return {x.b, build::dot(*x.b, x.v, y.v, transpose_x, transpose_y)};
}

}  // namespace poptorch
