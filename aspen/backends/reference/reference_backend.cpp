#include "aspen/backends/reference/reference_backend.h"

#include "aspen/backends/api/through_float.h"

namespace aspen {
namespace {

class ReferenceBackend final : public Backend {
 public:
  ReferenceBackend() { register_reference_kernels(kernels_); }
  std::string name() const override { return "reference"; }
  std::unique_ptr<Kernel> create_kernel(const KernelRequest& request) const override {
    if (computes_in_bfloat16(request)) {
      auto conversion = plain_bfloat16_conversion();
      auto kernel = create_kernel(*widened_request(request, *conversion));
      return make_through_float(request, std::move(conversion), std::move(kernel));
    }
    std::string why;
    if (auto kernel = kernels_.create(request, why)) return kernel;
    throw UserError("the reference backend cannot run {}: {}", to_string(request), why);
  }

 private:
  KernelRegistry kernels_;
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace aspen
