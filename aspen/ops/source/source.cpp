// Ops without inputs: full, iota, constant. None has a gradient.
#include "aspen/ops/source/source.h"

#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

void check_shape(const InferContext& c, const Shape& shape) {
  for (auto extent : shape) c.check(extent >= 0, "shape {} has a negative size.", to_string(shape));
}

std::vector<TensorType> infer_constant(const InferContext& c) {
  const auto& attrs = c.attrs<ConstantAttrs>();
  check_shape(c, attrs.shape);
  TensorType type{attrs.dtype, attrs.shape};
  std::size_t bytes = attrs.data.bytes ? attrs.data.bytes->size() : 0;
  c.check(bytes == type.bytes(), "{} needs {} bytes of data, not {}.", to_string(type), type.bytes(), bytes);
  return {type};
}

Attrs example_constant() {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  for (int value : {0, 1, 127, 255}) bytes->push_back(static_cast<std::byte>(value));
  return Attrs::of(ConstantAttrs{DType::kU8, {2, 2}, Blob{bytes}});
}

}  // namespace

void define_source(OpRegistry& ops) {
  ops.define<FullAttrs>("full")
      .summary("A tensor with one value everywhere.")
      .output("y", "the type and shape asked for")
      .infer([](const InferContext& c) {
        const auto& attrs = c.attrs<FullAttrs>();
        check_shape(c, attrs.shape);
        return std::vector<TensorType>{{attrs.dtype, attrs.shape}};
      })
      .example({.attrs = Attrs::of(FullAttrs{DType::kF32, {2, 3}, 0.1})})
      .example({.attrs = Attrs::of(FullAttrs{DType::kF16, {5}, 0.1})})
      .example({.attrs = Attrs::of(FullAttrs{DType::kBF16, {5}, 0.1})})
      .example({.attrs = Attrs::of(FullAttrs{DType::kI32, {}, -7})})
      .example({.attrs = Attrs::of(FullAttrs{DType::kBool, {4}, 1})});
  ops.define<IotaAttrs>("iota")
      .summary("Evenly spaced numbers: start + i * step.")
      .output("y", "one dimension")
      .infer([](const InferContext& c) {
        const auto& attrs = c.attrs<IotaAttrs>();
        c.check(attrs.size >= 0, "size {} is negative.", attrs.size);
        c.check(attrs.dtype != DType::kBool, "has no bool form; the types are floating point and integer.");
        return std::vector<TensorType>{{attrs.dtype, {attrs.size}}};
      })
      .example({.attrs = Attrs::of(IotaAttrs{DType::kI32, 7, 3, -2})})
      .example({.attrs = Attrs::of(IotaAttrs{DType::kF32, 11, 0.5, 0.1})});
  ops.define<ConstantAttrs>("constant")
      .summary("Data known while compiling.")
      .output("y", "the type and shape asked for")
      .infer(infer_constant)
      .stored()
      .example({.attrs = example_constant()});
}

}  // namespace aspen
