#include "aspen/backends/reference/half_partials.h"

#include <algorithm>
#include <array>

namespace aspen {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// An operand as (outer, axis, inner), of which pieces along the axis are copied into float.
struct Operand {
  std::int64_t outer = 1, extent = 1, inner = 1;

  Operand(const Shape& shape, std::size_t axis) : extent(shape[axis]) {
    for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  }
  std::size_t piece_bytes(std::int64_t size) const {
    return aligned(static_cast<std::size_t>(outer * size * inner) * sizeof(float));
  }
  void copy(const Half* from, std::int64_t begin, std::int64_t size, float* to) const {
    for (std::int64_t i = 0; i < outer; ++i) {
      const Half* piece = from + (i * extent + begin) * inner;
      for (std::int64_t j = 0; j < size * inner; ++j) *to++ = static_cast<float>(piece[j]);
    }
  }
};

class HalfPartialsKernel final : public Kernel {
 public:
  HalfPartialsKernel(const KernelRequest& request, const SummedAxes& axes, std::int64_t size,
                     std::unique_ptr<Kernel> piece, std::unique_ptr<Kernel> last)
      : result_(request.outputs[0]), has_bias_(request.inputs.size() > 2 && request.inputs[2].present),
        size_(size), operands_{Operand(request.inputs[0].type.shape, axes.first),
                               Operand(request.inputs[1].type.shape, axes.second)},
        piece_(std::move(piece)), last_(std::move(last)) {}

  std::size_t workspace_bytes() const override {
    return own_bytes() + std::max(piece_->workspace_bytes(), last_ ? last_->workspace_bytes() : 0);
  }
  void reserve(std::size_t num_threads) const override {
    piece_->reserve(num_threads);
    if (last_) last_->reserve(num_threads);
  }

  void run(const KernelArgs& args) const override {
    auto* at = static_cast<std::byte*>(args.workspace);
    std::array<float*, 2> floats;
    for (std::size_t i : {0, 1}) {
      floats[i] = reinterpret_cast<float*>(at);
      at += operands_[i].piece_bytes(size_);
    }
    auto* partial = reinterpret_cast<float*>(at);
    auto* sum = static_cast<Half*>(args.outputs[0]);
    begin(args, sum);
    const std::array<const void*, 3> inputs{floats[0], floats[1], nullptr};
    const std::array<void*, 1> outputs{partial};
    for (std::int64_t first = 0; first < operands_[0].extent; first += size_) {
      std::int64_t count = std::min(size_, operands_[0].extent - first);
      for (std::size_t i : {0, 1}) operands_[i].copy(static_cast<const Half*>(args.inputs[i]), first, count, floats[i]);
      (count == size_ ? piece_ : last_)
          ->run({.inputs = {inputs.data(), args.inputs.size()},
                 .outputs = outputs,
                 .workspace = static_cast<std::byte*>(args.workspace) + own_bytes(),
                 .step = args.step});
      for (std::int64_t i = 0, n = result_.numel(); i < n; ++i) {
        sum[i] = static_cast<Half>(static_cast<float>(sum[i]) + partial[i]);
      }
    }
  }

 private:
  std::size_t own_bytes() const {
    return operands_[0].piece_bytes(size_) + operands_[1].piece_bytes(size_) +
           aligned(static_cast<std::size_t>(result_.numel()) * sizeof(float));
  }

  void begin(const KernelArgs& args, Half* sum) const {
    std::int64_t n = result_.numel();
    if (!has_bias_) {
      std::fill(sum, sum + n, Half(0));
      return;
    }
    const auto* bias = static_cast<const Half*>(args.inputs[2]);
    std::int64_t channels = result_.shape[1], plane = n / (result_.shape[0] * channels);
    for (std::int64_t i = 0; i < n / plane; ++i) std::fill(sum + i * plane, sum + (i + 1) * plane, bias[i % channels]);
  }

  TensorType result_;
  bool has_bias_;
  std::int64_t size_;  // of a piece, along the axis
  std::array<Operand, 2> operands_;
  std::unique_ptr<Kernel> piece_, last_;  // last_: of a shorter last piece
};

KernelRequest piece_request(const KernelRequest& request, const SummedAxes& axes, std::int64_t size) {
  KernelRequest piece = request;
  piece.half_partials = false;
  for (KernelInput& input : piece.inputs) input.type.dtype = DType::kF32;
  piece.inputs[0].type.shape[axes.first] = piece.inputs[1].type.shape[axes.second] = size;
  if (piece.inputs.size() > 2) piece.inputs[2].present = false;
  piece.outputs[0].dtype = DType::kF32;
  return piece;
}

}  // namespace

KernelFactory half_partials(KernelFactory make_float, FindSummedAxes find_axes) {
  return [make_float = std::move(make_float), find_axes](const KernelRequest& request,
                                                         std::string& why) -> std::unique_ptr<Kernel> {
    if (!request.half_partials || request.outputs[0].dtype != DType::kF16 || request.outputs[0].numel() == 0) {
      why = fmt::format("{}: no half partials asked for", request.op);
      return nullptr;
    }
    std::optional<SummedAxes> found = find_axes(request);
    if (!found) {
      why = fmt::format("{}: the sum cannot be cut", request.op);
      return nullptr;
    }
    const SummedAxes& axes = *found;
    std::int64_t extent = request.inputs[0].type.shape[axes.first];
    std::int64_t size = std::max<std::int64_t>(1, kProductsPerPartial / std::max<std::int64_t>(1, axes.products));
    if (extent <= size) {
      why = fmt::format("{}: a sum of one partial", request.op);
      return nullptr;
    }
    std::unique_ptr<Kernel> piece = make_float(piece_request(request, axes, size), why), last;
    if (piece != nullptr && extent % size != 0) last = make_float(piece_request(request, axes, extent % size), why);
    if (piece == nullptr || (extent % size != 0 && last == nullptr)) return nullptr;
    return std::make_unique<HalfPartialsKernel>(request, axes, size, std::move(piece), std::move(last));
  };
}

}  // namespace aspen
