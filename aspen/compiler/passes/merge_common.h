// Computes once what would be computed twice (common subexpressions).
//
//   %1 = exp(%x)
//   %2 = exp(%x)            =>     %1 = exp(%x)
//   %3 = mul(%1, %2)               %3 = mul(%1, %1)
//
// Merges ops of one kind with the same inputs, attributes, placement and section. Never random or impure
// ops, nor large sources: keeping those would cost more memory than writing them again costs time. On several
// devices forward and backward ops are not merged either: they end up in different tasks.
//
// Expects: nothing. Ensures: nothing more.
// After canonicalise, which makes equal ops look equal.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void merge_common(Graph& graph, const PassContext& context);

}  // namespace aspen
