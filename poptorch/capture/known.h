// What the graph is known to compute while it is still being captured: values that depend on constants alone.
// Handlers ask for index tensors and sizes, the recorder for `.item()`.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/ir/graph.h"

namespace poptorch {

class Known {
 public:
  Known();
  // The contents of the value, or nullptr when it depends on an input, a variable or a random op.
  const std::vector<std::byte>* find(aspen::Value* value);

 private:
  using Bytes = std::vector<std::byte>;
  void evaluate(aspen::Op& op);

  std::unique_ptr<aspen::Backend> backend_;
  // nullptr: known to be unknown.
  std::unordered_map<const aspen::Value*, std::unique_ptr<const Bytes>> values_;
};

}  // namespace poptorch
