// Fourier transforms as products with a matrix of cosines and one of sines along each axis. Torch takes the functions
// of torch.fft apart into these three, which pad, cut and choose the norm. Complex tensors are pairs along a last axis.
#include <cmath>
#include <numbers>

#include "poptorch/aten/support/expression.h"
#include "poptorch/aten/support/matrix.h"

namespace poptorch {
namespace {

// Beyond it torch's transform on the host, whose work grows more slowly, is faster than the product.
constexpr std::int64_t kLargest = 1024;

struct Complex {
  Expr real, imaginary;  // imaginary.v == nullptr: all 0
};

// x times a matrix (extent, n) along an axis.
Expr along(Expr x, std::int64_t axis, Expr matrix) {
  Axes order = all_axes(x.shape());
  std::swap(order[static_cast<std::size_t>(axis)], order.back());
  return transpose(matmul(transpose(x, order), matrix), order);
}

// factor(k) * f(2 pi k t / n) for inputs k and results t.
template <class F, class G>
Expr wave(Builder& b, std::int64_t inputs, std::int64_t results, std::int64_t n, G factor, F f) {
  std::vector<double> numbers;
  for (std::int64_t k = 0; k < inputs; ++k) {
    for (std::int64_t t = 0; t < results; ++t) {
      double turn = static_cast<double>(k * t % n) / static_cast<double>(n);
      numbers.push_back(factor(k) * f(2 * std::numbers::pi * turn));
    }
  }
  return constant(b, DType::kF32, {inputs, results}, numbers);
}

double cosine(double x) { return std::cos(x); }
double sine(double x) { return std::sin(x); }

// The sum over k of z e^(sign i 2 pi k t / n) for the first `results` t.
Complex transformed(Complex z, std::int64_t axis, double sign, std::int64_t results) {
  std::int64_t n = z.real.size(axis);
  auto one = [](std::int64_t) { return 1.0; };
  auto signed_one = [sign](std::int64_t) { return sign; };
  Expr c = wave(*z.real.b, n, results, n, one, cosine);
  Expr s = wave(*z.real.b, n, results, n, signed_one, sine);
  Complex y{along(z.real, axis, c), along(z.real, axis, s)};
  if (z.imaginary.v == nullptr) return y;
  return {y.real - along(z.imaginary, axis, s), y.imaginary + along(z.imaginary, axis, c)};
}

// The sum of z e^(i 2 pi k t / n) over a half whose other half is its mirror image: n real numbers.
Expr to_real(Complex z, std::int64_t axis, std::int64_t n) {
  std::int64_t half = n / 2 + 1;
  auto twice = [n](std::int64_t k) { return k == 0 || 2 * k == n ? 1.0 : 2.0; };
  Expr real = pad_axis(z.real, axis, 0, half - z.real.size(axis));
  Expr imaginary = pad_axis(z.imaginary, axis, 0, half - z.imaginary.size(axis));
  Expr y = along(real, axis, wave(*real.b, half, n, n, twice, cosine));
  return y - along(imaginary, axis, wave(*real.b, half, n, n, twice, sine));
}

// The axes to transform, all but the last in their order first.
Axes axes_of(Call& call, std::int64_t rank) {
  Axes axes = call.integers("dim");
  for (std::int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  return axes;
}

void require_small(const Shape& shape, const Axes& axes) {
  for (auto axis : axes) {
    if (shape[static_cast<std::size_t>(axis)] > kLargest) decline("a long transform");
  }
}

// normalization: 0 none, 1 the root of the number of elements, 2 that number
double scale(Call& call, double count) {
  std::int64_t kind = call.integer("normalization");
  return kind == 0 ? 1 : kind == 1 ? 1 / std::sqrt(count) : 1 / count;
}

Complex parts(Call& call) {
  Expr pairs = expr(call, call.value("self"));
  return {select_row(pairs, pairs.rank() - 1, 0), select_row(pairs, pairs.rank() - 1, 1)};
}

void complex_result(Call& call, Complex z, double factor) {
  Axes last = {z.real.rank()};
  Expr pairs = concat({unsqueeze(z.real, last[0]), unsqueeze(z.imaginary, last[0])}, last[0]);
  call.result((factor == 1 ? pairs : pairs * factor).v, ScalarType::ComplexFloat);
}

void require_float(Call& call, ScalarType type) {
  if (call.dtype("self") != type) decline("another precision");
}

// _fft_c2c(Tensor self, int[] dim, int normalization, bool forward)
void complex_to_complex(Call& call) {
  require_float(call, ScalarType::ComplexFloat);
  Complex z = parts(call);
  double count = 1;
  Axes axes = axes_of(call, z.real.rank());
  require_small(z.real.shape(), axes);
  for (auto axis : axes) {
    std::int64_t n = z.real.size(axis);
    z = transformed(z, axis, call.boolean("forward") ? -1 : 1, n);
    count *= static_cast<double>(n);
  }
  complex_result(call, z, scale(call, count));
}

// _fft_r2c(Tensor self, int[] dim, int normalization, bool onesided)
void real_to_complex(Call& call) {
  require_float(call, ScalarType::Float);
  Complex z{expr(call, call.value("self")), {}};
  double count = 1;
  Axes axes = axes_of(call, z.real.rank());
  require_small(z.real.shape(), axes);
  for (std::size_t i = axes.size(); i-- > 0;) {
    std::int64_t n = z.real.size(axes[i]);
    bool half = i + 1 == axes.size() && call.boolean("onesided");
    z = transformed(z, axes[i], -1, half ? n / 2 + 1 : n);
    count *= static_cast<double>(n);
  }
  if (axes.empty()) decline("nothing to transform");
  complex_result(call, z, scale(call, count));
}

// _fft_c2r(Tensor self, int[] dim, int normalization, int last_dim_size)
void complex_to_real(Call& call) {
  require_float(call, ScalarType::ComplexFloat);
  Complex z = parts(call);
  Axes axes = axes_of(call, z.real.rank());
  require_small(z.real.shape(), axes);
  std::int64_t size = call.integer("last_dim_size");
  if (axes.empty() || size > kLargest) decline("a long transform");
  double count = static_cast<double>(size);
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
    std::int64_t n = z.real.size(axes[i]);
    z = transformed(z, axes[i], 1, n);
    count *= static_cast<double>(n);
  }
  Expr y = to_real(z, axes.back(), size);
  double factor = scale(call, count);
  call.result((factor == 1 ? y : y * factor).v, ScalarType::Float);
}

}  // namespace

void register_fourier(HandlerTable& table) {
  table.add_complex("aten::_fft_c2c", complex_to_complex);
  table.add("aten::_fft_r2c", real_to_complex);
  table.add_complex("aten::_fft_c2r", complex_to_real);
}

}  // namespace poptorch
