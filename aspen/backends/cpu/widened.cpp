#include "aspen/backends/cpu/widened.h"

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/elementwise.h"
#include "aspen/backends/reference/reference_backend.h"

namespace aspen {
namespace {

class VectorConversion final : public FloatConversion {
 public:
  bool takes(DType type) const override { return is_narrow_float(type); }

  void widen(const KernelArgs& args, DType type, const void* from, float* to, std::int64_t n) const override {
    for_each_chunk(args, cut_elements(n, kMoveCost), [&](const Chunk& chunk) {
      if (type == DType::kF16) {
        to_float(static_cast<const Half*>(from) + chunk.begin, to + chunk.begin, chunk.size());
      } else {
        to_float(static_cast<const BFloat16*>(from) + chunk.begin, to + chunk.begin, chunk.size());
      }
    });
  }

  void round(const KernelArgs& args, std::size_t, DType type, const float* from, void* to,
             std::int64_t n) const override {
    for_each_chunk(args, cut_elements(n, kMoveCost), [&](const Chunk& chunk) {
      if (type == DType::kF16) {
        from_float(from + chunk.begin, static_cast<Half*>(to) + chunk.begin, chunk.size());
      } else {
        from_float(from + chunk.begin, static_cast<BFloat16*>(to) + chunk.begin, chunk.size());
      }
    });
  }
};

KernelFactory through_float(KernelFactory make_float, FloatPorts ports) {
  return [make_float = std::move(make_float), ports](const KernelRequest& request,
                                                     std::string& why) -> std::unique_ptr<Kernel> {
    auto conversion = vector_conversion();
    std::optional<KernelRequest> wide = widened_request(request, *conversion, ports);
    if (!wide) {
      why = fmt::format("{}: nothing to widen", request.op);
      return nullptr;
    }
    std::unique_ptr<Kernel> kernel = make_float(*wide, why);
    if (kernel == nullptr) return nullptr;
    return make_through_float(request, std::move(conversion), std::move(kernel), ports);
  };
}

}  // namespace

std::shared_ptr<const FloatConversion> vector_conversion() {
  static const auto conversion = std::make_shared<const VectorConversion>();
  return conversion;
}

KernelFactory widened(KernelFactory make_float) { return through_float(std::move(make_float), FloatPorts::kAll); }
KernelFactory rounded(KernelFactory make_float) { return through_float(std::move(make_float), FloatPorts::kOutputs); }

std::unique_ptr<Kernel> make_reference_kernel(const KernelRequest& request, std::string& why) {
  static const KernelRegistry kernels = [] {
    KernelRegistry all;
    register_reference_kernels(all);
    return all;
  }();
  return kernels.create(request, why);
}

void add_with_half(KernelRegistry& kernels, std::string_view op, const KernelFactory& make_float) {
  kernels.add(op, make_float);
  kernels.add(op, widened(make_float));
}

}  // namespace aspen
