// cast: another element type, same shape. Gradient, between floating types: cast back.
// narrow: integers of 64 bits in 32, made by compiler/placement/narrow_inputs.cpp after gradients are taken.
#include "aspen/ops/cast/cast.h"

#include "aspen/ops/build.h"

namespace aspen {

void define_cast(OpRegistry& ops) {
  OpDef& cast =
      ops.define<CastAttrs>("cast")
          .summary("Converts elements to another type: float to integer truncates, anything to bool asks != 0.")
          .input("x", "any type")
          .output("y", "shape of x, the type asked for")
          .pointwise()
          .quick()
          .infer([](const InferContext& c) {
            return std::vector<TensorType>{{c.attrs<CastAttrs>().dtype, c.in(0).shape}};
          })
          .gradient([](GradientContext& c) { c.set(0, build::cast(c.b, c.grad(), c.in(0)->dtype())); })
          // To f64 the gradient check sees no rounding.
          .example({.inputs = {{DType::kF32, {3, 5}}}, .attrs = Attrs::of(CastAttrs{DType::kF64})});
  auto example = [&](DType from, DType to, double range) {
    // The other conversions round or have integers on one side: finite differences say nothing there.
    cast.example({.inputs = {{from, {37}}},
                  .attrs = Attrs::of(CastAttrs{to}),
                  .low = -range,
                  .high = range,
                  .int_low = from == DType::kU8 ? 0 : -100,
                  .int_high = 100,
                  .check_gradient = false});
  };
  example(DType::kF32, DType::kF16, 100);
  example(DType::kF16, DType::kF32, 100);
  example(DType::kF32, DType::kBF16, 100);
  example(DType::kBF16, DType::kF32, 100);
  example(DType::kBF16, DType::kF16, 100);
  example(DType::kBF16, DType::kI32, 1000);
  example(DType::kI32, DType::kBF16, 0);
  example(DType::kF32, DType::kI32, 1000);
  example(DType::kF32, DType::kU8, 1000);
  example(DType::kF32, DType::kBool, 2);
  example(DType::kI32, DType::kF32, 0);
  example(DType::kI32, DType::kI8, 0);
  example(DType::kU8, DType::kF32, 0);
  cast.example({.inputs = {{DType::kBool, {37}}}, .attrs = Attrs::of(CastAttrs{DType::kF32})});

  const Attrs of_input = Attrs::of(NarrowAttrs{"ids"});
  ops.define<NarrowAttrs>("narrow")
      .summary("An input's integers of 64 bits in 32 bits; one that does not fit is an error with its value.")
      .input("x", "i64")
      .output("y", "shape of x, i32")
      .pointwise()
      .takes_wide()
      .infer([](const InferContext& c) {
        c.check(c.in(0).dtype == DType::kI64, "x is {}; expected i64.", to_string(c.in(0)));
        return std::vector<TensorType>{{DType::kI32, c.in(0).shape}};
      })
      .example({.inputs = {{DType::kI64, {37}}}, .attrs = of_input, .int_low = -2147483648, .int_high = 2147483648})
      .example({.inputs = {{DType::kI64, {3, 5}}}, .attrs = of_input, .int_low = -9, .int_high = 9})
      .example({.inputs = {{DType::kI64, {}}}, .attrs = of_input});
}

}  // namespace aspen
