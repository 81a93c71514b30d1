#include "aspen/backends/cpu/widened.h"

#include <algorithm>
#include <array>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/elementwise.h"
#include "aspen/backends/reference/reference_backend.h"

namespace aspen {
namespace {

constexpr std::size_t kMostPorts = 8;
constexpr std::size_t kAlignment = 64;

// An input or output of the op as the float kernel sees it.
struct Port {
  bool is_half = false;
  std::size_t offset = 0;  // of its floats in the workspace
  Chunks chunks;           // of the conversion

  float* floats(const KernelArgs& args) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(args.workspace) + offset);
  }
};

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const KernelRequest& request, std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {
    for (const KernelInput& input : request.inputs) inputs_.push_back(make_port(input.type, input.present));
    for (const TensorType& output : request.outputs) outputs_.push_back(make_port(output, true));
  }

  std::size_t workspace_bytes() const override { return converted_bytes_ + kernel_->workspace_bytes(); }
  bool calls_host() const override { return kernel_->calls_host(); }
  void reserve(std::size_t num_threads) const override { kernel_->reserve(num_threads); }

  void run(const KernelArgs& args) const override {
    std::array<const void*, kMostPorts> inputs;
    std::array<void*, kMostPorts> outputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs[i] = widen(args, i);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      outputs[i] = outputs_[i].is_half ? outputs_[i].floats(args) : args.outputs[i];
    }
    kernel_->run({.inputs = {inputs.data(), inputs_.size()},
                  .outputs = {outputs.data(), outputs_.size()},
                  .workspace = static_cast<std::byte*>(args.workspace) + converted_bytes_,
                  .step = args.step});
    for (std::size_t i = 0; i < outputs_.size(); ++i) round(args, i);
  }

 private:
  Port make_port(const TensorType& type, bool present) {
    Port port{.is_half = present && type.dtype == DType::kF16, .offset = converted_bytes_};
    if (!port.is_half) return port;
    port.chunks = cut_elements(type.numel(), kMoveCost);
    std::size_t bytes = static_cast<std::size_t>(type.numel()) * sizeof(float);
    converted_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return port;
  }

  const void* widen(const KernelArgs& args, std::size_t i) const {
    const Port& port = inputs_[i];
    if (!port.is_half) return args.inputs[i];
    for_each_chunk(args, port.chunks, [&](const Chunk& chunk) {
      half_to_float(static_cast<const Half*>(args.inputs[i]) + chunk.begin, port.floats(args) + chunk.begin,
                    chunk.size());
    });
    return port.floats(args);
  }

  void round(const KernelArgs& args, std::size_t i) const {
    const Port& port = outputs_[i];
    if (!port.is_half) return;
    for_each_chunk(args, port.chunks, [&](const Chunk& chunk) {
      float_to_half(port.floats(args) + chunk.begin, static_cast<Half*>(args.outputs[i]) + chunk.begin, chunk.size());
    });
  }

  std::unique_ptr<Kernel> kernel_;
  std::vector<Port> inputs_, outputs_;
  std::size_t converted_bytes_ = 0;
};

bool widen_type(TensorType& type) {
  if (type.dtype != DType::kF16) return false;
  type.dtype = DType::kF32;
  return true;
}

}  // namespace

KernelFactory widened(KernelFactory make_float) {
  return
      [make_float = std::move(make_float)](const KernelRequest& request, std::string& why) -> std::unique_ptr<Kernel> {
        KernelRequest wide = request;
        bool has_half = false;
        for (KernelInput& input : wide.inputs) has_half |= input.present && widen_type(input.type);
        for (TensorType& output : wide.outputs) has_half |= widen_type(output);
        if (!has_half) {
          why = fmt::format("{}: no half to widen", request.op);
          return nullptr;
        }
        if (std::max(wide.inputs.size(), wide.outputs.size()) > kMostPorts) {
          why = fmt::format("{}: more than {} inputs or outputs to widen", request.op, kMostPorts);
          return nullptr;
        }
        std::unique_ptr<Kernel> kernel = make_float(wide, why);
        if (kernel == nullptr) return nullptr;
        return std::make_unique<WidenedKernel>(request, std::move(kernel));
      };
}

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
