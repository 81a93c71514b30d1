// Counting: how many elements fall into each bin, and reductions over segments of an axis.
#include <limits>

#include "aspen/ops/index/index.h"
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Range {
  Expr low, high;
};

// The given range, or that of the elements; half a unit to each side (a whole one for histc) where it is empty.
Range range_of(Expr x, bool given, double low, double high, double margin) {
  Range range{full(*x.b, x.dtype(), {}, low), full(*x.b, x.dtype(), {}, high)};
  if (!given) range = {reduce_min(x, {0}), reduce_max(x, {0})};
  Expr empty = range.low == range.high;
  return {where(empty, range.low - margin, range.low), where(empty, range.high + margin, range.high)};
}

// Adds amounts (n) up in `bins` bins by position (n); positions outside are dropped.
Expr counted(Expr position, Expr amount, std::int64_t bins) {
  Expr inside = position >= 0.0 && position < static_cast<double>(bins);
  Expr zeros = full(*position.b, amount.dtype(), {bins}, 0);
  return scatter_rows(zeros, where(inside, position, 0.0), where(inside, amount, 0.0), 0, "add");
}

// histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0)
void histc(Call& call) {
  ScalarType type = call.dtype("self");
  std::int64_t bins = call.integer("bins");
  double low = call.number("min"), high = call.number("max");
  if (bins < 1 || low > high)
    throw UserError("[histc] {} bins from {} to {}; expected bins >= 1 and min <= max.", bins, low, high);
  Expr x = detach(in_float(expr(call, floating_operand(call, "self"))));
  x = reshape(x, {x.numel()});
  Range range = range_of(x, low != high, low, high, 1);
  Expr place = floor((x - range.low) * static_cast<double>(bins) / (range.high - range.low));
  Expr inside = x >= range.low && x <= range.high;
  place = where(inside, clamp(place, 0, static_cast<double>(bins - 1)), -1.0);
  Expr result = counted(cast(place, DType::kI32), full_like(x, 1), bins);
  call.result(cast(result, graph_dtype(type)).v, type);
}

void finish(Call& call, Expr x, Expr edges) {
  ScalarType type = call.dtype("self");
  std::int64_t bins = edges.numel() - 1;
  Expr amount = full_like(x, 1);
  if (call.has("weight")) {
    amount = detach(in_float(expr(call, call.value("weight"))));
    amount = reshape(amount, {amount.numel()});
  }
  // The last bin has both its edges.
  Expr after = expr(call, call.b.make("searchsorted", {edges.v, x.v}, aspen::SearchsortedAttrs{true}));
  Expr last = select_row(edges, 0, bins);
  Expr place = where(x == last, full(call.b, DType::kI32, {}, static_cast<double>(bins - 1)), after - 1.0);
  Expr result = counted(place, amount, bins);
  if (call.boolean("density")) {
    result = result / (sum(result, {0}) * (slice(edges, 0, 1, bins + 1) - slice(edges, 0, 0, bins)));
  }
  call.result(cast(result, graph_dtype(type)).v, type);
  call.result(cast(edges, graph_dtype(type)).v, type);
}

// histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor
// bin_edges)
void histogram_by_edges(Call& call) {
  Expr x = detach(in_float(expr(call, call.value("self"))));
  finish(call, reshape(x, {x.numel()}), detach(in_float(expr(call, operand(call, "bins", call.dtype("self"))))));
}

// histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> ...
void histogram_by_count(Call& call) {
  Expr x = detach(in_float(expr(call, call.value("self"))));
  x = reshape(x, {x.numel()});
  std::int64_t bins = call.integer("bins");
  if (bins < 1) throw UserError("[histogram] {} bins; expected at least 1.", bins);
  std::vector<double> given = call.has("range") ? call.numbers("range") : std::vector<double>{0, 0};
  Range range = range_of(x, call.has("range"), given.at(0), given.at(1), 0.5);
  // Counted from the nearer end, as torch.linspace does.
  Expr step = (range.high - range.low) / static_cast<double>(bins), i = iota(call.b, x.dtype(), bins + 1);
  Expr edges = where(i < static_cast<double>((bins + 1) / 2), range.low + step * i,
                     range.high - step * (static_cast<double>(bins) - i));
  finish(call, x, edges);
}

// -- segments of an axis ------------------------------------------------------------------------------------------

// segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int
// axis=0, bool unsafe=False, Scalar? initial=None): the axes before `axis` have lengths of their own.
void segment_reduce(Call& call) {
  ScalarType type = call.dtype("data");
  Expr x = expr(call, call.value("data"));
  Expr data = in_float(x);
  bool by_offsets = call.has("offsets");
  if (!by_offsets && !call.has("lengths")) decline("segment_reduce by indices");
  Expr lengths = cast(expr(call, call.value(by_offsets ? "offsets" : "lengths")), DType::kI32);
  std::int64_t axis = lengths.rank() - 1, size = data.size(axis);
  if (by_offsets) {
    std::int64_t count = lengths.size(axis);
    lengths = slice(lengths, axis, 1, count) - slice(lengths, axis, 0, count - 1);
  }
  if (!call.boolean("unsafe")) {
    Expr total = check_range(sum(lengths, {axis}), size, size, "segment_reduce", "sum of lengths",
                             fmt::format("an axis of {} elements", size));
    lengths = lengths + unsqueeze(total - static_cast<double>(size), axis);  // adds 0, and is computed
  }
  // belongs: (batch..., position, segment), then axes of size 1 for the rest of the data
  Expr ends = unsqueeze(cumsum(lengths, axis), axis), starts = ends - unsqueeze(lengths, axis);
  Expr position = positions(call.b, lengths.rank() + 1, axis, size);
  Expr belongs = position >= starts && position < ends;
  Shape wide = belongs.shape();
  for (std::int64_t i = axis + 1; i < data.rank(); ++i) wide.push_back(1);
  belongs = reshape(belongs, wide);

  std::string reduce = call.text("reduce");
  bool largest = reduce == "max", smallest = reduce == "min", product = reduce == "prod", mean = reduce == "mean";
  if (!largest && !smallest && !product && !mean && reduce != "sum") {
    throw UserError("[segment_reduce] unknown reduction \"{}\"; there are max, mean, min, prod and sum.", reduce);
  }
  double neutral = largest ? -kInfinity : smallest ? kInfinity : product ? 1 : 0;
  Expr spread = where(belongs, unsqueeze(data, axis + 1), neutral);
  Expr y = largest    ? reduce_max(spread, {axis})
           : smallest ? reduce_min(spread, {axis})
           : product  ? expr(call, build::reduce(call.b, "reduce_prod", spread.v, {axis}, false))
                      : sum(spread, {axis});
  if (call.has("initial")) {
    double initial = call.number("initial");
    Expr start = full_like(y, initial);
    y = largest    ? where(y >= initial || isnan(y), y, start)
        : smallest ? where(y <= initial || isnan(y), y, start)
        : product  ? y * initial
                   : y + initial;
  }
  if (mean) {
    Shape shape = lengths.shape();
    for (std::int64_t i = axis + 1; i < data.rank(); ++i) shape.push_back(1);
    Expr count = cast(reshape(lengths, shape), y.dtype()), empty = count == 0.0;
    Expr average = y / where(empty, 1.0, count);
    y = where(empty, call.has("initial") ? y : full_like(y, std::numeric_limits<double>::quiet_NaN()), average);
  }
  call.result(cast(y, x.dtype()).v, type);
}

}  // namespace

void register_histograms(HandlerTable& table) {
  table.add("aten::histc", histc);
  table.add("aten::histogram.bins_tensor", histogram_by_edges);
  table.add("aten::histogram.bin_ct", histogram_by_count);
  table.add("aten::segment_reduce", segment_reduce);
}

}  // namespace poptorch
