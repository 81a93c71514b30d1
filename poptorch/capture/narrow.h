// Tensors of 64-bit numbers on their way to the 32 bits a graph value has: nothing may be lost in silence. Integers
// that a call gives go this way on the device (aspen/compiler/placement/narrow_inputs.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace poptorch {

// A contiguous tensor of the type that a graph value has. An integer that has no room in 32 bits is a UserError that
// says whose it is: buffer "offset".
at::Tensor to_graph_type(const at::Tensor& tensor, std::string_view whose);
// The first number of a float64 tensor that is infinite in float32.
std::optional<double> first_overflow(const at::Tensor& tensor, const at::Tensor& in_graph_type);
// The tensor's contents as a graph value holds them, row major: itself, where that is how it holds them. Warns of
// numbers that float32 cannot hold.
at::Tensor to_graph_tensor(const at::Tensor& tensor, std::string_view what);
std::vector<std::byte> to_graph_bytes(const at::Tensor& tensor, std::string_view what);  // a copy
// UserError if the program has written a number that an integer of the graph cannot hold: ids + 2**40.
void check_integer_numbers(const aspen::Graph& graph);

}  // namespace poptorch
