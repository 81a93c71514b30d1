// dot: batched matrix product y[b] = op(a[b]) op(b[b]), op transposing where asked. With no transposition
//   da = g b^T,  db = a^T g;
// the transposed forms follow by exchanging the roles.
#include "aspen/ops/dot/dot.h"

#include "aspen/ops/build.h"

namespace aspen {
namespace {

std::vector<TensorType> infer_dot(const InferContext& c) {
  const auto& attrs = c.attrs<DotAttrs>();
  const TensorType &a = c.in(0), &b = c.in(1);
  c.check(a.dtype == b.dtype && a.dtype != DType::kBool, "takes two operands of one arithmetic type, not {} and {}.",
          to_string(a), to_string(b));
  c.check(a.rank() >= 2 && a.rank() == b.rank(), "takes operands of equal rank >= 2, not {} and {}.", to_string(a),
          to_string(b));
  auto rank = a.rank();
  bool fits = a.shape[rank - (attrs.transpose_a ? 2 : 1)] == b.shape[rank - (attrs.transpose_b ? 1 : 2)];
  for (std::int64_t i = 0; i + 2 < rank; ++i) fits = fits && a.shape[i] == b.shape[i];
  c.check(fits, "cannot multiply {}{} by {}{}; batch axes and the summed axis must agree.", to_string(a),
          attrs.transpose_a ? " transposed" : "", to_string(b), attrs.transpose_b ? " transposed" : "");
  TensorType y = a;
  y.shape[rank - 2] = a.shape[rank - (attrs.transpose_a ? 1 : 2)];
  y.shape[rank - 1] = b.shape[rank - (attrs.transpose_b ? 2 : 1)];
  return {y};
}

std::vector<TensorType> infer_dot_float(const InferContext& c) {
  c.check(c.in(0).dtype == DType::kBF16, "takes operands in bf16, not {}.", to_string(c.in(0)));
  return {{DType::kF32, infer_dot(c)[0].shape}};
}

// (B, M, K) x (B, K, N) -> (B, M, N): B * M * N * K.
double dot_products(const Op& op) {
  const Shape& a = op.input(0)->shape();
  std::int64_t k = op.attrs<DotAttrs>().transpose_a ? a[a.size() - 2] : a.back();
  return static_cast<double>(op.output()->type().numel()) * static_cast<double>(k);
}

void dot_gradient(GradientContext& c) {
  const auto& attrs = c.attrs<DotAttrs>();
  const bool ta = attrs.transpose_a, tb = attrs.transpose_b;
  Value *a = c.in(0), *b = c.in(1), *g = build::cast(c.b, c.grad(), a->dtype());
  if (c.needs(0)) c.set(0, ta ? build::dot(c.b, b, g, tb, true) : build::dot(c.b, g, b, false, !tb));
  if (c.needs(1)) c.set(1, tb ? build::dot(c.b, g, a, true, ta) : build::dot(c.b, a, g, !ta, false));
}

}  // namespace

void define_dot(OpRegistry& ops) {
  auto example = [](Shape a, Shape b, bool ta, bool tb, DType type = DType::kF32) {
    return Example{.inputs = {{type, std::move(a)}, {type, std::move(b)}}, .attrs = Attrs::of(DotAttrs{ta, tb})};
  };
  auto define = [&](const char* name, const char* summary, const char* result) -> OpDef& {
    return ops.define<DotAttrs>(name)
        .summary(summary)
        .input("a", "(batch..., M, K); transposed: (batch..., K, M)")
        .input("b", "(batch..., K, N); transposed: (batch..., N, K)")
        .output("y", result)
        .gradient(dot_gradient)
        .products(dot_products);
  };
  define("dot_float", "dot of operands in bf16, with its sums as they are.", "(batch..., M, N), f32")
      .infer(infer_dot_float)
      .example(example({5, 7}, {7, 6}, false, false, DType::kBF16))
      .example(example({2, 37, 40}, {2, 35, 40}, false, true, DType::kBF16))
      .example(example({70, 64}, {70, 90}, true, false, DType::kBF16));
  define("dot", "Matrix product over the last two axes, one per element of the leading axes.", "(batch..., M, N)")
      .infer(infer_dot)
      .example(example({3, 4}, {4, 5}, false, false))
      .example(example({2, 4, 3}, {2, 4, 5}, true, false))
      .example(example({2, 3, 4}, {2, 5, 4}, false, true))
      .example(example({2, 2, 4, 3}, {2, 2, 5, 4}, true, true))
      .example(example({17, 33}, {33, 19}, false, false))
      .example({.inputs = {{DType::kF16, {5, 7}}, {DType::kF16, {7, 6}}}, .attrs = Attrs::of(DotAttrs{})})
      .example({.inputs = {{DType::kI32, {3, 4}}, {DType::kI32, {4, 2}}},
                .attrs = Attrs::of(DotAttrs{}),
                .int_low = -5,
                .int_high = 6});
}

}  // namespace aspen
