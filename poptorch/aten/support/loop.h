// Loops of lowerings: recurrent layers and recursions over time.
//
//   LoopResults run = repeat(b, steps, false, {.carried = {h}, .rows = {xs}, .fixed = {w}}, [](const LoopValues& x) {
//     Expr h = tanh(x.rows[0] + dot(x.carried[0], x.fixed[0]));
//     return TurnResults{.carried = {h}, .parts = {h}};
//   });
#pragma once

#include <functional>
#include <vector>

#include "poptorch/aten/support/expression.h"

namespace poptorch {

struct LoopValues {
  std::vector<Expr> carried;  // from turn to turn
  std::vector<Expr> rows;     // one row along axis 0 for each turn, which gets it without that axis
  std::vector<Expr> fixed;    // the same in all turns
};

struct TurnResults {
  std::vector<Expr> carried;
  std::vector<Expr> parts;  // become rows of a stack
};

struct LoopResults {
  std::vector<Expr> carried;  // after the last turn
  std::vector<Expr> stacks;
};

// reverse: the last row comes first. Short loops are unrolled (kLongestUnrolled).
LoopResults repeat(Builder& b, std::int64_t count, bool reverse, const LoopValues& values,
                   const std::function<TurnResults(const LoopValues&)>& turn);

}  // namespace poptorch
