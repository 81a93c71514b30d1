#include "aspen/backends/api/through_float.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace aspen {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class PlainBFloat16Conversion final : public FloatConversion {
 public:
  bool takes(DType type) const override { return type == DType::kBF16; }
  void widen(const KernelArgs&, DType, const void* from, float* to, std::int64_t n) const override {
    std::transform(static_cast<const BFloat16*>(from), static_cast<const BFloat16*>(from) + n, to,
                   [](BFloat16 x) { return static_cast<float>(x); });
  }
  void round(const KernelArgs&, std::size_t, DType, const float* from, void* to, std::int64_t n) const override {
    std::transform(from, from + n, static_cast<BFloat16*>(to), [](float x) { return BFloat16(x); });
  }
};

// An input or output as the float kernel sees it.
struct Port {
  DType dtype = DType::kF32;
  std::int64_t numel = 0;
  bool is_converted = false;
  std::size_t offset = 0;  // of its floats in the workspace

  float* floats(const KernelArgs& args) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(args.workspace) + offset);
  }
};

class ThroughFloatKernel final : public Kernel {
 public:
  ThroughFloatKernel(const KernelRequest& request, std::shared_ptr<const FloatConversion> conversion,
                     std::unique_ptr<Kernel> kernel, FloatPorts ports)
      : conversion_(std::move(conversion)), kernel_(std::move(kernel)) {
    for (const KernelInput& input : request.inputs) {
      inputs_.push_back(make_port(input.type, input.present && ports == FloatPorts::kAll));
    }
    for (const TensorType& output : request.outputs) outputs_.push_back(make_port(output, true));
    pointers_ = own_bytes_;
    own_bytes_ += aligned((inputs_.size() + outputs_.size()) * sizeof(void*));
  }

  std::size_t workspace_bytes() const override { return own_bytes_ + kernel_->workspace_bytes(); }
  bool calls_host() const override { return kernel_->calls_host(); }
  void reserve(std::size_t num_threads) const override { kernel_->reserve(num_threads); }

  void run(const KernelArgs& args) const override {
    auto* table = static_cast<std::byte*>(args.workspace) + pointers_;
    std::span<const void*> inputs(reinterpret_cast<const void**>(table), inputs_.size());
    std::span<void*> outputs(reinterpret_cast<void**>(table) + inputs_.size(), outputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Port& port = inputs_[i];
      inputs[i] = port.is_converted ? port.floats(args) : args.inputs[i];
      if (port.is_converted) conversion_->widen(args, port.dtype, args.inputs[i], port.floats(args), port.numel);
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      outputs[i] = outputs_[i].is_converted ? outputs_[i].floats(args) : args.outputs[i];
    }
    kernel_->run({.inputs = inputs,
                  .outputs = outputs,
                  .workspace = static_cast<std::byte*>(args.workspace) + own_bytes_,
                  .step = args.step});
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Port& port = outputs_[i];
      if (port.is_converted) conversion_->round(args, i, port.dtype, port.floats(args), args.outputs[i], port.numel);
    }
  }

 private:
  Port make_port(const TensorType& type, bool may_convert) {
    Port port{.dtype = type.dtype, .numel = type.numel(), .offset = own_bytes_};
    port.is_converted = may_convert && conversion_->takes(type.dtype);
    if (port.is_converted) own_bytes_ += aligned(static_cast<std::size_t>(port.numel) * sizeof(float));
    return port;
  }

  std::shared_ptr<const FloatConversion> conversion_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<Port> inputs_, outputs_;
  std::size_t pointers_ = 0;  // the float kernel's table of arguments, in the workspace: nothing is allocated
  std::size_t own_bytes_ = 0;
};

bool takes_bfloat16(std::string_view op) {
  constexpr std::string_view kOps[] = {"cast",      "constant",      "reshape",       "transpose",     "broadcast",
                                       "reverse",   "slice",         "slice_update",  "pad",           "concat",
                                       "take",      "gather",        "select",        "send",          "store",
                                       "load",      "print",         "nop",           "assign",        "full",
                                       "host_call", "replica_slice", "replica_write", "replica_add",   "replica_gather",
                                       "sgd",       "adam",          "rmsprop",       "lamb",          "lamb_norms",
                                       "lamb_step", "square_sum",    "iota",          "random_uniform"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

}  // namespace

std::shared_ptr<const FloatConversion> plain_bfloat16_conversion() {
  static const auto conversion = std::make_shared<const PlainBFloat16Conversion>();
  return conversion;
}

std::optional<KernelRequest> widened_request(const KernelRequest& request, const FloatConversion& conversion,
                                             FloatPorts ports) {
  KernelRequest wide = request;
  bool has_any = false;
  const auto widen = [&](TensorType& type) {
    if (!conversion.takes(type.dtype)) return;
    type.dtype = DType::kF32;
    has_any = true;
  };
  for (KernelInput& input : wide.inputs) {
    input.stays = false;  // a copy of it, made in every run
    if (input.present && ports == FloatPorts::kAll) widen(input.type);
  }
  for (TensorType& output : wide.outputs) widen(output);
  return has_any ? std::optional(std::move(wide)) : std::nullopt;
}

std::unique_ptr<Kernel> make_through_float(const KernelRequest& request,
                                           std::shared_ptr<const FloatConversion> conversion,
                                           std::unique_ptr<Kernel> kernel, FloatPorts ports) {
  return std::make_unique<ThroughFloatKernel>(request, std::move(conversion), std::move(kernel), ports);
}

bool computes_in_bfloat16(const KernelRequest& request) {
  const auto is_bfloat16 = [](const TensorType& type) { return type.dtype == DType::kBF16; };
  const bool has_any =
      std::any_of(request.inputs.begin(), request.inputs.end(),
                  [&](const KernelInput& input) { return input.present && is_bfloat16(input.type); }) ||
      std::any_of(request.outputs.begin(), request.outputs.end(), is_bfloat16);
  return has_any && !takes_bfloat16(request.op);
}

}  // namespace aspen
