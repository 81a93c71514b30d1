#include "aspen/backends/cpu/cpu_backend.h"

#include "aspen/backends/reference/reference_backend.h"

namespace aspen {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend() {
    register_cpu_kernels(tuned_);
    register_reference_kernels(plain_);
  }
  std::string name() const override { return "cpu"; }
  std::unique_ptr<Kernel> create_kernel(const KernelRequest& request) const override {
    std::string why;
    if (auto kernel = tuned_.create(request, why)) return kernel;
    if (auto kernel = plain_.create(request, why)) return kernel;
    throw UserError("the cpu backend cannot run {}: {}", to_string(request), why);
  }

 private:
  KernelRegistry tuned_, plain_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace aspen
