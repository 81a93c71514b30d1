// Between torch tensors on the host and the bytes of graph values: int64 is held as i32, float64 as f32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "aspen/base/tensor_type.h"

namespace poptorch {

bool is_supported(c10::ScalarType type);
aspen::DType graph_dtype(c10::ScalarType type);  // UserError for types that are not supported
inline constexpr std::string_view kSupportedTypes =
    "float32, float16, bfloat16, int32, int16, int8, uint8 and bool, and int64 and float64 in a narrower form";
// The torch type a graph type shows as when nothing else is known: i32 -> int64.
c10::ScalarType default_torch_dtype(aspen::DType type);
// The torch type with the very layout of the graph type: i32 -> int32.
c10::ScalarType host_dtype(aspen::DType type);

aspen::TensorType graph_type(const at::Tensor& tensor);
aspen::Shape shape_of(const at::Tensor& tensor);

// The tensor's contents as a graph value holds them, row major.
std::vector<std::byte> to_graph_bytes(const at::Tensor& tensor);
void to_graph_bytes(const at::Tensor& tensor, std::span<std::byte> bytes);

// A tensor of type `as` over the bytes of a graph value: shares them when the layouts agree, else a copy.
at::Tensor from_graph_bytes(const void* bytes, const aspen::TensorType& type, c10::ScalarType as);
// Fills an existing tensor, whatever its strides.
void from_graph_bytes(const void* bytes, const aspen::TensorType& type, at::Tensor into);

}  // namespace poptorch
