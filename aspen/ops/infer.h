// Shape rules shared by op definitions: which element types an op takes, and elementwise results.
#pragma once

#include "aspen/compiler/ir/op_def.h"

namespace aspen {

enum class ElementKind : std::uint8_t {
  kFloating,
  kNumeric,   // floating point and integers
  kInteger,   // integers
  kIntegral,  // integers and bool
  kAny,
};

std::string_view name_of(ElementKind kind);  // "floating point", for messages and port documentation
bool accepts(ElementKind kind, DType type);

// Input i has a type of this kind.
void check_kind(const InferContext& c, std::size_t i, ElementKind kind);

// All inputs have equal element types of the kind; result: their broadcast shape, that type (or bool).
InferFunction elementwise(ElementKind kind);
InferFunction elementwise_to_bool(ElementKind kind);

// All inputs have the very same type, of the kind; result: that type.
InferFunction same_types(ElementKind kind);

}  // namespace aspen
