// Random numbers. Each op owns a stream; what it draws depends on seed, step, replica and stream alone (philox.h),
// so dropout's gradient and a recomputation see the very mask of the forward pass.
#include "aspen/ops/random/random.h"

#include "aspen/compiler/ir/builder.h"
#include "aspen/ops/infer.h"

namespace aspen {
namespace {

std::vector<TensorType> infer_random(const InferContext& c) {
  const auto& attrs = c.attrs<RandomAttrs>();
  c.check(is_floating(attrs.dtype), "draws floating point numbers, not {}; cast them.", name_of(attrs.dtype));
  for (auto extent : attrs.shape) c.check(extent >= 0, "shape {} has a negative size.", to_string(attrs.shape));
  return {{attrs.dtype, attrs.shape}};
}

void define_source(OpRegistry& ops, const char* name, const char* summary) {
  ops.define<RandomAttrs>(name)
      .summary(summary)
      .output("y", "the type and shape asked for")
      .infer(infer_random)
      .random()
      .example({.attrs = Attrs::of(RandomAttrs{DType::kF32, {5, 7}, 1})})
      .example({.attrs = Attrs::of(RandomAttrs{DType::kF16, {33}, 2})})
      .example({.attrs = Attrs::of(RandomAttrs{DType::kBF16, {33}, 2})})
      .example({.attrs = Attrs::of(RandomAttrs{DType::kF32, {}, 3})});
}

}  // namespace

void define_random(OpRegistry& ops) {
  define_source(ops, "random_uniform", "Uniform numbers in [0, 1), in steps of 2^-24 (half: 2^-11, bfloat16: 2^-8).");
  define_source(ops, "random_normal", "Normal numbers of mean 0 and deviation 1.");
  ops.define<DropoutAttrs>("dropout")
      .summary("Sets elements to zero with probability p and scales the others by 1 / (1 - p).")
      .input("x", "floating point")
      .output("y", "shape and type of x")
      .infer([](const InferContext& c) {
        double p = c.attrs<DropoutAttrs>().p;
        check_kind(c, 0, ElementKind::kFloating);
        c.check(p >= 0 && p <= 1, "probability {} is not between 0 and 1.", p);
        return std::vector<TensorType>{c.in(0)};
      })
      .inplace(0, 0)
      .random()
      .gradient([](GradientContext& c) { c.set(0, c.b.make("dropout", {c.grad()}, c.attrs<DropoutAttrs>())); })
      .example({.inputs = {{DType::kF32, {5, 7}}}, .attrs = Attrs::of(DropoutAttrs{0.5, 4})})
      .example({.inputs = {{DType::kF32, {33}}}, .attrs = Attrs::of(DropoutAttrs{0.1, 5})})
      .example({.inputs = {{DType::kF32, {33}}}, .attrs = Attrs::of(DropoutAttrs{0, 6})})
      .example({.inputs = {{DType::kF32, {33}}}, .attrs = Attrs::of(DropoutAttrs{1, 7})});
  ops.define<RandomPermutationAttrs>("random_permutation")
      .summary("The numbers from 0 to size - 1 in random order.")
      .output("y", "i32, one dimension")
      .infer([](const InferContext& c) {
        std::int64_t size = c.attrs<RandomPermutationAttrs>().size;
        c.check(size >= 0, "size {} is negative.", size);
        return std::vector<TensorType>{{DType::kI32, {size}}};
      })
      .random()
      .example({.attrs = Attrs::of(RandomPermutationAttrs{17, 8})})
      .example({.attrs = Attrs::of(RandomPermutationAttrs{1, 9})});
  using Rounding = RoundAtRandomAttrs;
  ops.define<Rounding>("round_at_random")
      .summary("Rounds to half, up or down with a probability in proportion to the distance.")
      .input("x", "f32")
      .output("y", "f16, shape of x")
      .infer([](const InferContext& c) {
        const std::int64_t draws = c.attrs<Rounding>().draws;
        c.check(c.in(0).dtype == DType::kF32, "rounds f32, not {}.", to_string(c.in(0)));
        c.check(draws >= Rounding::kPerReplica && draws <= Rounding::kPerShard, "draws {}; expected 0, 1 or 2.", draws);
        return std::vector<TensorType>{{DType::kF16, c.in(0).shape}};
      })
      .random()
      .example({.inputs = {{DType::kF32, {5, 7}}}, .attrs = Attrs::of(Rounding{10, Rounding::kPerReplica})})
      .example({.inputs = {{DType::kF32, {33}}}, .attrs = Attrs::of(Rounding{11, Rounding::kShared})})
      .example({.inputs = {{DType::kF32, {301}}}, .attrs = Attrs::of(Rounding{12, Rounding::kPerShard})});
}

}  // namespace aspen
