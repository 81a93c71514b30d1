// Finds the normalisations and activations that are worth being computed again. Asked by `recompute`.
//
//   %c = conv(%x, %w)                  kept
//   %y, %m, %r = normalize(%c)         -+
//   %z = mul(%y, %gamma)                | a chain that begins at %c
//   %a = relu(%z)                      -+
//   %d = conv(%a, %v)                  kept
//
// A chain is made of normalisations, pointwise ops and aliases that depend on one value alone (besides parameters and
// constants), which is where it begins. It is worth it if the backward pass needs more bytes of its results than there
// are in that value, which must be kept in their place; if the backward pass needs that value anyway, always.
#pragma once

#include <functional>
#include <unordered_set>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Of the ops that may run again, in the order of the graph, those of the chains that are worth it.
// kept: by value id, values that are not made again in any case. share_stage: values reach the second of two ops
// without having been sent.
std::unordered_set<const Op*> cheap_chains(const std::vector<Op*>& repeatable, const std::vector<bool>& kept,
                                           const std::function<bool(const Op&, const Op&)>& share_stage);

}  // namespace aspen
