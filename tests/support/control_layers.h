// Layers of random networks that are loops, branches and calls.
#pragma once

#include "aspen/compiler/ir/builder.h"

namespace aspen::testing {

// h: [batch, width]; w: [width, width]; bias: [width]. The result is like h.
//
// A recurrent layer over the rows of h, with dropout between them.
Value* loop_over_rows(Builder& b, Value* h, Value* w, Value* bias, bool reverse, std::int64_t stream);
// One of two layers, as the sum of h is.
Value* branch(Builder& b, Value* h, Value* w);
// A layer with dropout, drawn by `stream` alone: the bodies of all such calls are equal.
Value* call(Builder& b, Value* h, Value* w, std::int64_t stream);

}  // namespace aspen::testing
