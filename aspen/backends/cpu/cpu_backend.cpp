#include "aspen/backends/cpu/cpu_backend.h"

#include "aspen/backends/cpu/isa.h"
#include "aspen/backends/cpu/onednn.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/backends/reference/reference_backend.h"
#include "aspen/base/log.h"

namespace aspen {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend() {
    register_cpu_kernels(tuned_);
    register_reference_kernels(plain_);
  }
  std::string name() const override { return "cpu"; }
  std::string fingerprint() const override {
    return fmt::format("cpu, {}, {}", name_of(best_isa()), onednn::fingerprint());
  }
  std::unique_ptr<Kernel> create_kernel(const KernelRequest& request) const override {
    std::string why;
    if (auto kernel = tuned_.create(request, why)) return kernel;
    if (request.candidate.empty()) {
      if (computes_in_bfloat16(request)) return through_float(request);
      if (auto kernel = plain_.create(request, why)) {
        if (tuned_.has(request.op)) log::trace("kernel of {}: the reference, since {}", to_string(request), why);
        return kernel;
      }
    }
    throw UserError("the cpu backend cannot run {}: {}", to_string(request), why);
  }
  // Half is computed by the candidates for float32. What is computed in bfloat16 goes by rule: in its own instructions
  // where the CPU has them.
  std::vector<CandidateOpinion> candidates(const KernelRequest& request) const override {
    if (request.half_partials || computes_in_bfloat16(request)) return {};
    std::optional<KernelRequest> wide = widened_request(request, *vector_conversion());
    return tuned_.opinions(wide ? *wide : request);
  }
  KernelRequest decisive(const KernelRequest& request) const override { return tuned_.decisive(request); }

 private:
  std::unique_ptr<Kernel> through_float(const KernelRequest& request) const {
    auto conversion = vector_conversion();
    auto kernel = create_kernel(*widened_request(request, *conversion));
    return make_through_float(request, std::move(conversion), std::move(kernel));
  }

  KernelRegistry tuned_, plain_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace aspen
