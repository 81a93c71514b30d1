// Lets one op do what attention is made of: the product of queries and keys, the scale, the mask, softmax and the
// product with the values. The scores of all rows are never in memory, and heads are taken apart where they lie.
//
//   %1 = transpose(%q) {permutation=[0, 2, 1, 3]}
//   %2 = transpose(%k) {permutation=[0, 2, 3, 1]}
//   %3 = transpose(%v) {permutation=[0, 2, 1, 3]}
//   %4 = dot(%1, %2)
//   %5 = mul(%4, %scale)                                =>   %9 = attention(%q, %k, %v, %mask) {scale=0.125}
//   %6 = add(%5, %mask)
//   %7 = softmax(%6) {axis=3}
//   %8 = dot(%7, %3)
//   %9 = transpose(%8) {permutation=[0, 2, 1, 3]}
//
// A mask may also take the place of scores (select), and a number may scale queries or keys before they are multiplied.
// Reshapes may stand between all of them. Nobody else may read what lies between: where somebody asks for the weights
// all stays, as do weights that dropout has been at, and in training a mask that is trained. Sums are divided by the
// sum of their weights rather than each weight, and half is rounded once, in the end: what is fused follows from ops
// and their shapes, before there are tasks, also across borders of stages: the op runs where the values are multiplied.
// Not when floating-point exceptions are looked for, since then every op is, nor in training where products are to be
// rounded.
//
// Expects: nothing. Ensures: nothing more; leaves dead ops to remove_dead, reshapes to canonicalise. In training before
// differentiate, which gives the op its gradient, and so that what somebody anchors is still there. Once more before
// the graph is cut into tasks, and before recompute, so that every copy of an op is fused alike.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void fuse_attention(Graph& graph, const PassContext& context);

}  // namespace aspen
