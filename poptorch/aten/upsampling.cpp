// Resizing of images and their like. The step in the source per step in the result is 1 / factor where a factor was
// given, else in / out; with aligned corners (in - 1) / (out - 1).
#include <cmath>

#include "aspen/ops/resize/resize.h"
#include "poptorch/aten/support/expression.h"
#include "poptorch/aten/support/matrix.h"

namespace poptorch {
namespace {

struct Kind {
  const char* name;  // of the ATen op, without the number of axes
  const char* mode;
  std::size_t spatial;
  bool corners;  // has align_corners
};

constexpr Kind kKinds[] = {
    {"upsample_nearest1d", "nearest", 1, false},
    {"upsample_nearest2d", "nearest", 2, false},
    {"upsample_nearest3d", "nearest", 3, false},
    {"_upsample_nearest_exact1d", "nearest_exact", 1, false},
    {"_upsample_nearest_exact2d", "nearest_exact", 2, false},
    {"_upsample_nearest_exact3d", "nearest_exact", 3, false},
    {"upsample_linear1d", "linear", 1, true},
    {"upsample_bilinear2d", "linear", 2, true},
    {"upsample_trilinear3d", "linear", 3, true},
    {"upsample_bicubic2d", "cubic", 2, true},
};

double scale_of(double in, double out, double factor, bool align_corners) {
  if (align_corners) return out > 1 ? (in - 1) / (out - 1) : 0;
  return factor > 0 ? 1 / factor : in / out;
}

void resize(Call& call, const Kind& kind, const char* input, std::vector<std::int64_t> size,
            const std::vector<double>& factors) {
  Value* x = call.value(input);
  if (x->shape().size() != kind.spatial + 2) {
    throw UserError("[{}] an input of shape {} has {} axes; expected {}.", call.name(), to_string(x->shape()),
                    x->shape().size(), kind.spatial + 2);
  }
  bool align_corners = kind.corners && call.boolean("align_corners");
  std::vector<double> scales;
  for (std::size_t i = 0; i < kind.spatial; ++i) {
    double in = static_cast<double>(x->shape()[i + 2]), out = static_cast<double>(size[i]);
    double factor = factors.empty() ? 0 : factors[i];
    scales.push_back(scale_of(in, out, factor, align_corners));
  }
  aspen::ResizeAttrs attrs{kind.mode, std::move(size), std::move(scales), align_corners, {}};
  call.result(call.b.make("resize", {x}, std::move(attrs)), call.dtype(input));
}

// upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors), ...
Handler by_vector(Kind kind) {
  return [kind](Call& call) {
    if (call.has("output_size")) return resize(call, kind, "input", call.integers("output_size"), {});
    std::vector<double> factors = call.numbers("scale_factors");
    const Shape& shape = call.value("input")->shape();
    std::vector<std::int64_t> size;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      size.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(shape.at(i + 2)) * factors[i])));
    }
    resize(call, kind, "input", std::move(size), factors);
  };
}

// upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
// scales_w=None), ...
Handler by_scales(Kind kind) {
  return [kind](Call& call) {
    static const char* const kNames[] = {"scales_d", "scales_h", "scales_w"};
    std::vector<double> factors;
    for (std::size_t i = 0; i < kind.spatial; ++i) {
      const char* name = kind.spatial == 1 ? "scales" : kNames[3 - kind.spatial + i];
      factors.push_back(number_or(call, name, 0));
    }
    resize(call, kind, "self", call.integers("output_size"), factors);
  };
}

// -- with antialiasing: each result is a weighted mean over as many elements as it covers ---------------------------

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }
// Keys' cubic convolution with a = -1/2.
double cubic(double x) {
  x = std::abs(x);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
}

// (in, out): what each element contributes to each result.
Expr antialias_weights(Builder& b, DType type, std::int64_t in, std::int64_t out, double scale, bool is_cubic) {
  double stretch = std::max(scale, 1.0), support = (is_cubic ? 2 : 1) * stretch;
  std::vector<double> weights(static_cast<std::size_t>(in * out), 0);
  for (std::int64_t i = 0; i < out; ++i) {
    double centre = scale * (static_cast<double>(i) + 0.5), total = 0;
    auto first = std::max<std::int64_t>(static_cast<std::int64_t>(centre - support + 0.5), 0);
    auto end = std::min<std::int64_t>(static_cast<std::int64_t>(centre + support + 0.5), in);
    auto at = [&](std::int64_t j) -> double& { return weights[static_cast<std::size_t>(j * out + i)]; };
    for (std::int64_t j = first; j < end; ++j) {
      double x = (static_cast<double>(j) - centre + 0.5) / stretch;
      total += at(j) = is_cubic ? cubic(x) : triangle(x);
    }
    for (std::int64_t j = first; j < end && total != 0; ++j) at(j) /= total;
  }
  return constant(b, type, {in, out}, weights);
}

// _upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
// scales_w=None), _upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]?
// scale_factors), _upsample_bicubic2d_aa(...), .vec(...)
Handler antialiased(bool is_cubic, bool by_vector) {
  return [is_cubic, by_vector](Call& call) {
    const char* input = by_vector ? "input" : "self";
    Expr given = expr(call, call.value(input)), x = in_float(given);
    if (x.rank() != 4) throw UserError("[{}] takes (N, C, H, W), not shape {}.", call.name(), to_string(x.shape()));
    std::vector<double> factors{0, 0};
    if (!by_vector) factors = {number_or(call, "scales_h", 0), number_or(call, "scales_w", 0)};
    if (by_vector && call.has("scale_factors")) factors = call.numbers("scale_factors");
    std::vector<std::int64_t> size;
    if (call.has("output_size")) size = call.integers("output_size");
    for (std::size_t i = size.size(); i < 2; ++i) {
      size.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(x.shape()[i + 2]) * factors[i])));
    }
    for (std::size_t i : {1, 0}) {  // the axis comes last for its product
      Expr y = i == 1 ? x : transpose(x, {0, 1, 3, 2});
      double scale = scale_of(static_cast<double>(y.size(3)), static_cast<double>(size[i]), factors[i],
                              call.boolean("align_corners"));
      y = matmul(y, antialias_weights(call.b, x.dtype(), y.size(3), size[i], scale, is_cubic));
      x = i == 1 ? y : transpose(y, {0, 1, 3, 2});
    }
    call.result(cast(x, given.dtype()).v, call.dtype(input));
  };
}

}  // namespace

void register_upsampling(HandlerTable& table) {
  for (const Kind& kind : kKinds) {
    table.add(std::string("aten::") + kind.name, by_scales(kind));
    table.add(std::string("aten::") + kind.name + ".vec", by_vector(kind));
  }
  for (bool is_cubic : {false, true}) {
    std::string name = is_cubic ? "aten::_upsample_bicubic2d_aa" : "aten::_upsample_bilinear2d_aa";
    table.add(name, antialiased(is_cubic, false));
    table.add(name + ".vec", antialiased(is_cubic, true));
  }
}

}  // namespace poptorch
