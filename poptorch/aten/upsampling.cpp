// Resizing of images and their like. The step in the source per step in the result is 1 / factor where a factor was
// given, else in / out; with aligned corners (in - 1) / (out - 1).
#include <cmath>

#include "aspen/ops/resize/resize.h"
#include "poptorch/aten/support/expression.h"

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
    if (align_corners)
      scales.push_back(out > 1 ? (in - 1) / (out - 1) : 0);
    else
      scales.push_back(factor > 0 ? 1 / factor : in / out);
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

}  // namespace

void register_upsampling(HandlerTable& table) {
  for (const Kind& kind : kKinds) {
    table.add(std::string("aten::") + kind.name, by_scales(kind));
    table.add(std::string("aten::") + kind.name + ".vec", by_vector(kind));
  }
}

}  // namespace poptorch
