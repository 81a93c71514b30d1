// A kernel made of a lambda that captured what was decided when it was made: a plan, a function, a type.
#pragma once

#include <memory>
#include <utility>

#include "aspen/backends/api/kernel.h"

namespace aspen {

template <class F>
class CallableKernel final : public Kernel {
 public:
  explicit CallableKernel(F run, std::size_t workspace) : run_(std::move(run)), workspace_(workspace) {}
  std::size_t workspace_bytes() const override { return workspace_; }
  void run(const KernelArgs& args) const override { run_(args); }

 private:
  F run_;
  std::size_t workspace_;
};

// run(const KernelArgs&) is called for every execution.
template <class F>
std::unique_ptr<Kernel> make_kernel(F run, std::size_t workspace_bytes = 0) {
  return std::make_unique<CallableKernel<F>>(std::move(run), workspace_bytes);
}

}  // namespace aspen
