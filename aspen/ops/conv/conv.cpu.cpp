// conv, conv_affine and the two gradients of conv, by the first that takes them: products of matrices for kernels of
// one pixel (conv_pointwise), plane by plane where channels do not mix (conv_depthwise), one image per lane for few
// channels (conv_lanes), one product for the gradient by many weights from few pixels (conv_unfolded), oneDNN for the
// rest.
#include "aspen/ops/conv/conv.h"

#include <algorithm>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/ops/conv/conv_depthwise.cpu.h"
#include "aspen/ops/conv/conv_finish.cpu.h"
#include "aspen/ops/conv/conv_lanes.cpu.h"
#include "aspen/ops/conv/conv_onednn.cpu.h"
#include "aspen/ops/conv/conv_partials.ref.h"
#include "aspen/ops/conv/conv_pointwise.cpu.h"
#include "aspen/ops/conv/conv_unfolded.cpu.h"

namespace aspen {
namespace {

struct ConvRequest {
  ConvAttrs attrs;
  ConvTypes types;
  ConvFinish finish = {};
};

ConvRequest read(ConvPass pass, const KernelRequest& request) {
  const TensorType& a = request.inputs[0].type;
  const TensorType& b = request.inputs[1].type;
  const TensorType& result = request.outputs[0];
  switch (pass) {
    case ConvPass::kInputGrad: return {request.attrs.as<ConvGradAttrs>().conv, {result, b, a}};
    case ConvPass::kWeightGrad: return {request.attrs.as<ConvGradAttrs>().conv, {a, result, b}};
    case ConvPass::kForward: break;
  }
  bool bias = request.inputs.size() > 2 && request.inputs[2].present;
  if (request.op == "conv") return {request.attrs.as<ConvAttrs>(), {a, b, result, bias}};
  const auto& affine = request.attrs.as<ConvAffineAttrs>();
  return {affine.conv, {a, b, result, bias}, ConvFinish(affine)};
}

// One spatial axis is the last of two.
ConvShape plane_shape(const ConvRequest& c) {
  auto at = [](const std::vector<std::int64_t>& v, std::size_t axis, std::int64_t missing) {
    return v.size() == 2 ? v[axis] : axis == 1 ? v[0] : missing;
  };
  auto spatial = [&](const Shape& shape, std::size_t axis) { return at({shape.begin() + 2, shape.end()}, axis, 1); };
  ConvShape s;
  s.images = c.types.x.shape[0];
  s.channels = c.types.x.shape[1];
  s.outputs = c.types.y.shape[1];
  s.height = spatial(c.types.x.shape, 0);
  s.width = spatial(c.types.x.shape, 1);
  s.out_height = spatial(c.types.y.shape, 0);
  s.out_width = spatial(c.types.y.shape, 1);
  s.kernel_y = spatial(c.types.w.shape, 0);
  s.kernel_x = spatial(c.types.w.shape, 1);
  s.stride_y = at(c.attrs.stride, 0, 1);
  s.stride_x = at(c.attrs.stride, 1, 1);
  s.pad_y = at(c.attrs.padding, 0, 0);
  s.pad_x = at(c.attrs.padding, 1, 0);
  s.dilation_y = at(c.attrs.dilation, 0, 1);
  s.dilation_x = at(c.attrs.dilation, 1, 1);
  return s;
}

bool is_depthwise(const ConvRequest& c) {
  std::int64_t groups = c.attrs.groups;
  return groups > 1 && groups == c.types.x.shape[1] && groups == c.types.y.shape[1] && c.attrs.stride.size() <= 2;
}

// Where one image per lane wins, measured on one core with AVX-512, batch 16 (microseconds, ours / oneDNN with its
// layout changes, forward, input gradient, weight gradient):
//   C 1,  O 5,  28x28, 3x3:   23/46     26/325    19/45
//   C 5,  O 12, 13x13, 5x5:   30/41     35/107    33/110
//   C 8,  O 16, 16x16, 3x3:   84/67    100/125    88/120
//   C 16, O 32, 16x16, 3x3:  388/347   339/240   297/253
// So: when either channel count leaves lanes of oneDNN's blocks of 16 idle, and the batch fills ours.
bool prefers_lanes(const ConvRequest& c) {
  if (c.attrs.groups != 1 || c.attrs.stride.size() > 2) return false;
  std::int64_t images = c.types.x.shape[0], lanes = conv_lanes();
  std::int64_t blocks = (images + lanes - 1) / lanes;
  if (images * 4 < blocks * lanes * 3) return false;
  std::int64_t channels = c.types.x.shape[1], outputs = c.types.y.shape[1];
  return std::min(channels, outputs) < 16 && std::max(channels, outputs) <= 32;
}

// Where one product wins for the gradient by the weights, measured on one core with AVX-512 (milliseconds, ours /
// oneDNN, which brings its result back into our layout; pixels of all images, x 3x3 of all channels):
//   32 x 512^2 2.1/3.5    49 x 512^2 2.7/4.4    128 x 256^2 1.75/1.77    144 x 64 * 96 0.19/0.17    512 x 128^2 2.0/1.4
bool prefers_unfolded(const ConvRequest& c) {
  std::int64_t pixels = c.types.y.numel() / c.types.y.shape[1];
  return c.attrs.groups == 1 && pixels <= 64 && c.types.w.numel() > c.types.x.numel() + c.types.y.numel();
}

// What one thread computes at a time: rows of some images.
struct LanesPart {
  Chunk images;
  ConvRows rows;
};

// Blocks of images, and where those are too few, rows of them: of y, or of x for the gradient by the input.
class LanesParts {
 public:
  LanesParts(std::int64_t images, std::int64_t rows, double nanoseconds) {
    std::int64_t parts = worthwhile_parts(nanoseconds, kMostChunks), lanes = conv_lanes();
    std::int64_t blocks = (images + lanes - 1) / lanes;
    images_ = Chunks(images, std::min(images, lanes * std::max<std::int64_t>(1, blocks / parts)));
    std::int64_t row_parts = std::clamp<std::int64_t>((parts + images_.count() - 1) / images_.count(), 1,
                                                      std::max<std::int64_t>(1, rows / kLeastRows));
    rows_ = Chunks(rows, (rows + row_parts - 1) / row_parts);
  }

  std::int64_t count() const { return images_.count() * rows_.count(); }
  std::int64_t rows() const { return rows_.size(); }
  // The same blocks of images with all of their rows: they fit where the parts do.
  LanesParts with_all_rows() const {
    LanesParts result = *this;
    result.rows_ = Chunks(rows_.items(), rows_.items());
    return result;
  }
  LanesPart operator[](std::int64_t i) const {
    Chunk rows = rows_[i % rows_.count()];
    return {images_[i / rows_.count()], {rows.begin, rows.end}};
  }

 private:
  static constexpr std::int64_t kLeastRows = 4;  // neighbours read the rows between them twice

  Chunks images_, rows_;
};

// The gradient by the weights is the sum of one per part, in their order.
class LanesConv final : public Kernel {
 public:
  LanesConv(ConvPass pass, const ConvShape& s)
      : pass_(pass), s_(s), x_image_(s.channels * s.height * s.width), y_image_(s.outputs * s.out_height * s.out_width),
        parts_(s.images, pass == ConvPass::kInputGrad ? s.height : s.out_height, nanoseconds()),
        part_bytes_(aligned(conv_lanes_workspace(s, parts_.rows()))),
        packed_bytes_(pass == ConvPass::kWeightGrad ? 0 : aligned(conv_lanes_packed(s))) {}

  std::size_t workspace_bytes() const override {
    auto parts = static_cast<std::size_t>(parts_.count()), sums = pass_ == ConvPass::kWeightGrad ? parts - 1 : 0;
    return packed_bytes_ + parts * part_bytes_ + sums * static_cast<std::size_t>(num_weights()) * sizeof(float);
  }

  void run(const KernelArgs& args) const override {
    auto* workspace = static_cast<std::byte*>(args.workspace);
    auto* packed = reinterpret_cast<float*>(workspace);
    workspace += packed_bytes_;
    auto* sums = reinterpret_cast<float*>(workspace + static_cast<std::size_t>(parts_.count()) * part_bytes_);
    pack(args, packed);
    if (args.step == nullptr || args.step->team == nullptr) return run_alone(args, packed, workspace, sums);
    for_each_chunk(args, Chunks(parts_.count(), 1), [&](const Chunk& chunk) {
      auto* own = reinterpret_cast<float*>(workspace + static_cast<std::size_t>(chunk.index) * part_bytes_);
      run_part(args, parts_[chunk.index], packed, own, sum_of(args, chunk.index, sums));
    });
    add_sums(args, sums);
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  std::int64_t num_weights() const { return s_.outputs * s_.taps(); }
  double nanoseconds() const {
    auto products = static_cast<double>(s_.images * y_image_ * s_.taps());
    auto moves = static_cast<double>(s_.images * (x_image_ + y_image_));
    return kMultiplyAddCost * products + kReadCost * moves;
  }

  // One thread need not read rows twice, where no sum depends on it.
  void run_alone(const KernelArgs& args, const float* packed, std::byte* workspace, float* sums) const {
    const LanesParts parts = pass_ == ConvPass::kWeightGrad ? parts_ : parts_.with_all_rows();
    for (std::int64_t i = 0; i < parts.count(); ++i) {
      run_part(args, parts[i], packed, reinterpret_cast<float*>(workspace), sum_of(args, i, sums));
    }
    add_sums(args, sums);
  }

  // Where a part puts its gradient by the weights.
  float* sum_of(const KernelArgs& args, std::int64_t part, float* sums) const {
    return part == 0 ? static_cast<float*>(args.outputs[0]) : sums + (part - 1) * num_weights();
  }
  void add_sums(const KernelArgs& args, const float* sums) const {
    if (pass_ == ConvPass::kWeightGrad) {
      add_parts(args, static_cast<float*>(args.outputs[0]), sums, num_weights(), parts_.count() - 1);
    }
  }

  void pack(const KernelArgs& args, float* packed) const {
    auto* w = static_cast<const float*>(args.inputs[1]);
    auto* bias = args.inputs.size() > 2 ? static_cast<const float*>(args.inputs[2]) : nullptr;
    if (pass_ == ConvPass::kForward) conv_lanes_pack_forward(s_, w, bias, packed);
    if (pass_ == ConvPass::kInputGrad) conv_lanes_pack_input_grad(s_, w, packed);
  }

  void run_part(const KernelArgs& args, const LanesPart& work, const float* packed, float* workspace,
                float* weight_grad) const {
    const auto& [images, rows] = work;
    ConvShape part = s_;
    part.images = images.size();
    std::int64_t x = images.begin * x_image_, y = images.begin * y_image_;
    auto* a = static_cast<const float*>(args.inputs[0]);
    auto* b = static_cast<const float*>(args.inputs[1]);
    auto* result = static_cast<float*>(args.outputs[0]);
    switch (pass_) {
      case ConvPass::kForward: return conv_lanes_forward(part, rows, a + x, packed, result + y, workspace);
      case ConvPass::kInputGrad: return conv_lanes_input_grad(part, rows, a + y, packed, result + x, workspace);
      case ConvPass::kWeightGrad: return conv_lanes_weight_grad(part, rows, a + x, b + y, weight_grad, workspace);
    }
  }

  ConvPass pass_;
  ConvShape s_;
  std::int64_t x_image_, y_image_;  // floats of one image
  LanesParts parts_;
  std::size_t part_bytes_, packed_bytes_;
};

template <ConvPass kPass>
std::unique_ptr<Kernel> make_conv(const KernelRequest& request, std::string& why) {
  if (request.outputs[0].dtype != DType::kF32) {
    why = "conv: the tuned kernels take f32";
    return nullptr;
  }
  ConvRequest c = read(kPass, request);
  if (c.types.x.numel() * c.types.w.numel() * c.types.y.numel() == 0) {
    why = "conv: an empty operand";
    return nullptr;
  }
  if (auto kernel = make_pointwise_conv(kPass, c.attrs, c.types, c.finish)) return kernel;
  if (is_depthwise(c)) return make_depthwise_conv(kPass, plane_shape(c), c.finish);
  if (prefers_lanes(c)) return with_finish(std::make_unique<LanesConv>(kPass, plane_shape(c)), c.types, c.finish);
  if (kPass == ConvPass::kWeightGrad && prefers_unfolded(c)) return make_unfolded_weight_grad(c.attrs, c.types);
  return make_onednn_conv(kPass, c.attrs, c.types, c.finish);
}

}  // namespace

void register_conv_cpu(KernelRegistry& kernels) {
  kernels.add("conv", half_partials(make_conv<ConvPass::kForward>, conv_axes));
  kernels.add("conv_input_grad", half_partials(make_conv<ConvPass::kInputGrad>, conv_input_grad_axes));
  kernels.add("conv_weight_grad", half_partials(make_conv<ConvPass::kWeightGrad>, conv_weight_grad_axes));
  add_with_half(kernels, "conv", make_conv<ConvPass::kForward>);
  add_with_half(kernels, "conv_affine", make_conv<ConvPass::kForward>);
  add_with_half(kernels, "conv_input_grad", make_conv<ConvPass::kInputGrad>);
  add_with_half(kernels, "conv_weight_grad", make_conv<ConvPass::kWeightGrad>);
}

}  // namespace aspen
