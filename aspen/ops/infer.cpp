#include "aspen/ops/infer.h"

namespace aspen {
namespace {

TensorType broadcast_inputs(const InferContext& c, ElementKind kind) {
  check_kind(c, 0, kind);
  TensorType result = c.in(0);
  for (std::size_t i = 1; i < c.num_inputs(); ++i) {
    c.check(c.in(i).dtype == result.dtype, "element types differ: {} and {}; cast one of them.", to_string(c.in(0)),
            to_string(c.in(i)));
    result.shape = broadcast_shapes(result.shape, c.in(i).shape, c.who());
  }
  return result;
}

}  // namespace

std::string_view name_of(ElementKind kind) {
  switch (kind) {
    case ElementKind::kFloating: return "floating point";
    case ElementKind::kNumeric: return "floating point or integer";
    case ElementKind::kInteger: return "integer";
    case ElementKind::kIntegral: return "integer or bool";
    case ElementKind::kAny: break;
  }
  return "any type";
}

bool accepts(ElementKind kind, DType type) {
  switch (kind) {
    case ElementKind::kFloating: return is_floating(type);
    case ElementKind::kNumeric: return type != DType::kBool;
    case ElementKind::kInteger: return is_integer(type);
    case ElementKind::kIntegral: return !is_floating(type);
    case ElementKind::kAny: break;
  }
  return true;
}

void check_kind(const InferContext& c, std::size_t i, ElementKind kind) {
  c.check(accepts(kind, c.in(i).dtype), "takes {} inputs, not {}.", name_of(kind), to_string(c.in(i)));
}

InferFunction elementwise(ElementKind kind) {
  return [kind](const InferContext& c) { return std::vector<TensorType>{broadcast_inputs(c, kind)}; };
}

InferFunction elementwise_to_bool(ElementKind kind) {
  return [kind](const InferContext& c) {
    return std::vector<TensorType>{{DType::kBool, broadcast_inputs(c, kind).shape}};
  };
}

InferFunction same_types(ElementKind kind) {
  return [kind](const InferContext& c) {
    check_kind(c, 0, kind);
    for (std::size_t i = 1; i < c.num_inputs(); ++i) {
      c.check(c.in(i) == c.in(0), "inputs differ: {} and {}; expected equal types.", to_string(c.in(0)),
              to_string(c.in(i)));
    }
    return std::vector<TensorType>{c.in(0)};
  };
}

}  // namespace aspen
