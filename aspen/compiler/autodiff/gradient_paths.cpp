#include "aspen/compiler/autodiff/gradient_paths.h"

#include <algorithm>

#include "aspen/base/dtype.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {

GradientPaths::Answer& GradientPaths::known(const Value& value) {
  const auto id = static_cast<std::size_t>(value.id());
  if (id >= known_.size()) known_.resize(std::max(id + 1, 2 * known_.size()), Answer::kUnknown);
  return known_[id];
}

// What can be said without looking at the inputs of its op.
GradientPaths::Answer GradientPaths::answer_at_once(const Value& value) const {
  if (!is_floating(value.dtype())) return Answer::kNo;
  if (const Variable* variable = value.variable()) return variable->trainable ? Answer::kYes : Answer::kNo;
  const Op* op = value.producer();
  return op == nullptr || op->no_grad || op->def().does_stop_gradients() ? Answer::kNo : Answer::kUnknown;
}

bool GradientPaths::wants(const Value* wanted) {
  if (wanted == nullptr) return false;
  std::vector<const Value*> open{wanted};  // not a recursion: a path may be as long as the graph
  while (!open.empty()) {
    const Value& value = *open.back();
    if (known(value) == Answer::kUnknown) known(value) = answer_at_once(value);
    if (known(value) != Answer::kUnknown) {
      open.pop_back();
      continue;
    }
    const std::size_t num_open = open.size();
    Answer answer = Answer::kNo;
    for (const Value* input : value.producer()->inputs()) {
      if (input == nullptr) continue;
      if (known(*input) == Answer::kYes) answer = Answer::kYes;
      if (known(*input) == Answer::kUnknown) open.push_back(input);  // all at once: the op may have thousands
    }
    if (answer == Answer::kYes) open.resize(num_open);
    if (open.size() == num_open) known(value) = answer;
  }
  return known(*wanted) == Answer::kYes;
}

}  // namespace aspen
