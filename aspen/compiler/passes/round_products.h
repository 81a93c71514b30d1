// Lets products of float32 multiply in bfloat16, where the user asks for it (CompileOptions::bfloat16_products): twice
// the products in an instruction and half the bytes. Sums stay in float32.
//
//   %1: f32 = dot(%x, %w)        =>     %1: bf16 = cast(%x)
//                                       %2: bf16 = cast(%w)
//                                       %3: f32 = dot_float(%1, %2)
//
// and likewise of conv, conv_input_grad and conv_weight_grad, whose bias stays in float32.
//
// Only where every element of both operands is used often: elsewhere rounding them takes longer than the products save,
// and the bits stay. Decided by shapes alone, so that all placements round alike.
//
// Expects: nothing. Ensures: nothing more. After gradients are taken, so that their products are rounded too; before
// merge_common, which lets the products of one tensor share its rounded copy.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void round_products(Graph& graph, const PassContext& context);

}  // namespace aspen
