// Which values of a graph are on a path from a trainable variable: the rule of `differentiate`, which the front end
// asks as well while the graph still grows (requires_grad, functions with a backward pass of their own).
#pragma once

#include <cstdint>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

class GradientPaths {
 public:
  // A value wants a gradient when it is floating point, its op was captured with gradients switched on, and one of its
  // inputs wants one. An op that has been asked about must not change any more.
  bool wants(const Value* value);  // nullptr: false
  // Paths begin at this value as well: a leaf that is no variable.
  void begin_at(const Value& value) { known(value) = Answer::kYes; }

 private:
  enum class Answer : std::uint8_t { kUnknown, kNo, kYes };

  Answer answer_at_once(const Value& value) const;
  Answer& known(const Value& value);

  std::vector<Answer> known_;  // by value id
};

}  // namespace aspen
