// Gradients of ops that own graphs. The backward pass of a loop is a loop in the other direction, that of a branch a
// branch on the same condition:
//
//   %h, %hs = loop(%h0, %xs, %w) {body: h' = tanh(x + h w)}
//     =>
//   %h, %hs, %s = loop(%h0, %xs, %w) {..., and s = h'}               what the backward pass needs is returned as well
//   %g, %gxs = loop(%gh, %ghs, %s, %w) {reverse, body: ...}          carries the gradient of h, from turn to turn
//   %gw = dot(%hs', %gxs)                                            sums over turns are one op after the loop
//
// A gradient by an operand that is the same in all turns is the sum over the turns. Where a turn's share is itself a
// sum, a product of matrices or a reduction, the loop returns what is added up instead, and one op outside does it for
// all turns at once. Otherwise the loop carries the sum.
//
// Needed values of the forward pass are returned by its op; what is made of constants, or shows another value in
// another shape, is made again. With recomputation the whole op runs again, see passes/recompute.h.
#pragma once

#include <vector>

#include "aspen/compiler/autodiff/differentiator.h"

namespace aspen {

struct BodyGradients {
  Op* op = nullptr;                     // stands in the place of the one given, which is gone: it may return more
  std::vector<GradientAnswer> answers;  // by operand
};

// `b` adds ops of the backward pass, stamped like the op. arriving: by result, nullptr: none does. needed: by operand.
BodyGradients differentiate_bodies(Builder& b, Op& op, const std::vector<Value*>& arriving,
                                   const std::vector<bool>& needed);

}  // namespace aspen
