// The strategy of the capture under way: Block asks it where the ops that follow belong.
#pragma once

#include "poptorch/strategy.h"

namespace poptorch {

class Placer {
 public:
  explicit Placer(ExecutionStrategy strategy);  // becomes the current one while it lives
  ~Placer();
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;
  static Placer* current();  // nullptr outside a capture

  // A block without a name is "0", "1", ... in the order they start.
  ExecutionStrategy::Place place(const std::optional<std::string>& block, std::optional<std::int64_t> ipu_id);

 private:
  ExecutionStrategy strategy_;
  std::int64_t next_name_ = 0;
};

}  // namespace poptorch
