// Brings ops into their simplest form: what changes nothing goes away, two moves become one, a broadcast that the
// next op does by itself is left to it.
//
//   %1 = reshape(%x) {shape=[6]}             %2 = reshape(%x) {shape=[3, 2]}
//   %2 = reshape(%1) {shape=[3, 2]}
//   %3 = neg(%2)                      =>
//   %4 = neg(%3)                             %5 = mul(%2, %w)
//   %5 = mul(%4, %w)
//
// The rules are in canonicalise.cpp, one function per kind of op. None changes a value, except that x + 0 keeps the
// sign of a negative zero.
//
// Expects: no markers, so that nothing hides a pattern and no path of a gradient can be changed any more.
// Ensures: nothing more. Leaves dead ops to remove_dead.
// Before and after fold_constants: each finds work the other made.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void canonicalise(Graph& graph, const PassContext& context);

}  // namespace aspen
