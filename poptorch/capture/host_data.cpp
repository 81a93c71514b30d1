#include "poptorch/capture/host_data.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_as_complex.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>

#include "aspen/base/error.h"
#include "poptorch/capture/complex.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/narrow.h"

namespace poptorch {

using aspen::DType;
using c10::ScalarType;

namespace {

std::optional<DType> find_graph_dtype(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
    case ScalarType::Double: return DType::kF32;
    case ScalarType::Half: return DType::kF16;
    case ScalarType::BFloat16: return DType::kBF16;
    case ScalarType::Int:
    case ScalarType::Long: return DType::kI32;
    case ScalarType::Short: return DType::kI16;
    case ScalarType::Char: return DType::kI8;
    case ScalarType::Byte: return DType::kU8;
    case ScalarType::Bool: return DType::kBool;
    default: return std::nullopt;
  }
}

}  // namespace

bool is_supported(ScalarType type) { return find_graph_dtype(type).has_value(); }

DType graph_dtype(ScalarType type) {
  if (const auto found = find_graph_dtype(type)) return *found;
  if (c10::isComplexType(type)) {
    throw aspen::UserError(
        "[types] a complex tensor ({}) cannot be an input, a parameter or a result of a model, whose numbers are "
        "real. Pass or return torch.view_as_real of it, and use torch.view_as_complex inside.",
        c10::toString(type));
  }
  throw aspen::UserError("[types] tensors of type {} cannot be part of a model; supported are {}.", c10::toString(type),
                         kSupportedTypes);
}

ScalarType default_torch_dtype(DType type) { return type == DType::kI32 ? ScalarType::Long : host_dtype(type); }

ScalarType host_dtype(DType type) {
  switch (type) {
    case DType::kF32: return ScalarType::Float;
    case DType::kF16: return ScalarType::Half;
    case DType::kBF16: return ScalarType::BFloat16;
    case DType::kF64: return ScalarType::Double;
    case DType::kI32: return ScalarType::Int;
    case DType::kI16: return ScalarType::Short;
    case DType::kI8: return ScalarType::Char;
    case DType::kU8: return ScalarType::Byte;
    case DType::kI64: return ScalarType::Long;
    case DType::kBool: break;
  }
  return ScalarType::Bool;
}

aspen::Shape shape_of(const at::Tensor& tensor) { return tensor.sizes().vec(); }

// Complex numbers are pairs along an axis of their own, the last.
aspen::TensorType graph_type(const at::Tensor& tensor) {
  const ScalarType type = tensor.scalar_type();
  if (!c10::isComplexType(type)) return {graph_dtype(type), shape_of(tensor)};
  aspen::Shape shape = shape_of(tensor);
  shape.push_back(2);
  return {graph_dtype(c10::toRealValueType(type)), std::move(shape)};
}

void to_graph_bytes(const at::Tensor& tensor, std::span<std::byte> bytes) {
  const std::vector<std::byte> made = to_graph_bytes(tensor);
  if (made.size() != bytes.size()) throw aspen::InternalError("{} bytes for a tensor of {}", bytes.size(), made.size());
  std::copy(made.begin(), made.end(), bytes.begin());
}

std::vector<std::byte> to_graph_bytes(const at::Tensor& tensor) {
  return to_graph_bytes(as_pairs(tensor), "a constant");
}

at::Tensor from_graph_bytes(const void* bytes, const aspen::TensorType& type, ScalarType as) {
  HostScope host;
  const at::Tensor tensor = at::from_blob(const_cast<void*>(bytes), type.shape, host_dtype(type.dtype));
  return (c10::isComplexType(as) ? at::view_as_complex(tensor.to(at::kFloat)) : tensor).to(as);
}

void from_graph_bytes(const void* bytes, const aspen::TensorType& type, at::Tensor into) {
  HostScope host;
  into.detach().copy_(at::from_blob(const_cast<void*>(bytes), type.shape, host_dtype(type.dtype)));
}

}  // namespace poptorch
