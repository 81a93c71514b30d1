// OutputPool: memory for the results of calls. A large result that the caller has dropped leaves its memory to a later
// call: fresh memory of the system costs more to touch for the first time than most ops take to fill it. Owned by a
// Model; results may outlive it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstddef>
#include <memory>

namespace poptorch {

class OutputPool {
 public:
  OutputPool();
  ~OutputPool();

  // As at::empty: the caller's own, for as long as it wants.
  at::Tensor empty(c10::IntArrayRef shape, c10::ScalarType type);
  // How much may be kept of what callers drop. More goes back to the system.
  void keep_at_most(std::size_t bytes);
  std::size_t kept_bytes() const;  // for tests

 private:
  class Blocks;
  std::shared_ptr<Blocks> blocks_;
};

}  // namespace poptorch
