// Max pooling over windows whose places are drawn: torch hands over the numbers they come from.
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

// Where the windows along an axis begin, (planes, windows): steps of 1 or 2 elements and the like, the last at the end.
Expr window_starts(Expr sample, std::int64_t extent, std::int64_t window, std::int64_t count) {
  Builder& b = *sample.b;
  const std::int64_t planes = sample.numel();
  Expr last = full(b, DType::kI32, {planes, 1}, static_cast<double>(extent - window));
  if (count == 1) return last;
  const float alpha = static_cast<float>(extent - window) / static_cast<float>(count - 1);
  Expr u = reshape(sample, {planes, 1}), i = reshape(iota(b, u.dtype(), count - 1), {1, count - 1});
  Expr start = trunc((i + u) * static_cast<double>(alpha)) - trunc(u * static_cast<double>(alpha));
  return concat({cast(start, DType::kI32), last}, 1);
}

// fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples)
//   -> (Tensor output, Tensor indices), fractional_max_pool3d(...); self: ([N,] C, spatial...), random_samples: (N, C,
//   axes)
Handler fractional_max_pool(std::int64_t axes) {
  return [axes](Call& call) {
    Expr x = expr(call, call.value("self")), samples = detach(in_float(expr(call, call.value("random_samples"))));
    std::vector<std::int64_t> window = repeated(call.integers("kernel_size"), static_cast<std::size_t>(axes));
    std::vector<std::int64_t> output = repeated(call.integers("output_size"), static_cast<std::size_t>(axes));
    const Shape extents(x.shape().end() - axes, x.shape().end());
    const std::int64_t plane = aspen::numel(extents), planes = x.numel() / plane;
    if (x.rank() < axes + 1 || samples.numel() != planes * axes) decline("samples of another shape");
    samples = reshape(samples, {planes, axes});
    std::int64_t windows = 1, taps = 1;
    Expr first;  // (planes, out...): the first element of each window
    for (std::int64_t axis = 0; axis < axes; ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      if (output[a] < 1 || window[a] < 1 || output[a] + window[a] - 1 > extents[a]) {
        throw UserError("[{}] {} windows of {} elements do not fit an axis of {}.", call.name(), output[a], window[a],
                        extents[a]);
      }
      // Torch's pooling of two axes takes the numbers in the other order.
      Expr sample = slice(samples, 1, axes == 2 ? 1 - axis : axis, axes == 2 ? 2 - axis : axis + 1);
      Expr start = window_starts(sample, extents[a], window[a], output[a]);
      Shape wide(static_cast<std::size_t>(axes + 1), 1);
      wide[0] = planes;
      wide[a + 1] = output[a];
      start = reshape(start, wide);
      first = axis == 0 ? start : first * static_cast<double>(extents[a]) + start;
      windows *= output[a];
      taps *= window[a];
    }
    first = reshape(first, {planes, windows});
    Expr flat = reshape(x, {planes, plane}), seen = detach(in_float(flat)), best, place;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      std::int64_t offset = 0, rest = tap;
      std::int64_t stride = 1;
      for (std::int64_t axis = axes; axis-- > 0;) {
        const auto a = static_cast<std::size_t>(axis);
        offset += rest % window[a] * stride;
        rest /= window[a];
        stride *= extents[a];
      }
      Expr index = first + static_cast<double>(offset), value = gather(seen, index, 1);
      Expr better = tap == 0 ? Expr{} : value > best || isnan(value);
      place = tap == 0 ? index : where(better, index, place);
      best = tap == 0 ? value : where(better, value, best);
    }
    Shape shape(x.shape().begin(), x.shape().end() - axes);
    shape.insert(shape.end(), output.begin(), output.end());
    call.result(reshape(gather(flat, place, 1), shape).v, call.dtype("self"));
    call.result(reshape(place, shape).v, ScalarType::Long);
  };
}

}  // namespace

void register_fractional_pooling(HandlerTable& table) {
  table.add("aten::fractional_max_pool2d", fractional_max_pool(2));
  table.add("aten::fractional_max_pool3d", fractional_max_pool(3));
}

}  // namespace poptorch
