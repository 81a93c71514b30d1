// Lets pointwise ops of one shape that feed each other run as one op, a tile of elements at a time: what passes between
// them stays in the cache, and memory is read and written once.
//
//   %1 = mul(%x, %y)                    %1 = group(%x, %y, %b) {body = (%x, %y, %b) {
//   %2 = add(%1, %b)          =>          %0 = mul(%x, %y)
//   %3 = relu(%2)                         %1 = add(%0, %b)
//   return z: %3                          %2 = relu(%1)
//                                         return %2 }}
//                                       return z: %1
//
// A slice that nobody else reads is taken in as well, unless it is in crumbs, and needs no memory: the group reads its
// operand where it lies.
//
// The bits stay: each op computes what it did. Groups lie within a task, and hold neither forward ops together with
// backward ones nor results in half, which may be rounded at random and are watched for overflows. Small tensors are in
// the cache anyway and stay as they are (CompileOptions::min_group_elements).
//
// Expects: nothing. Ensures: nothing more. After everything that looks at single ops, before the schedule.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void group_elementwise(Graph& graph, const PassContext& context);

}  // namespace aspen
