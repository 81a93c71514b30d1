#include "aspen/ops/conv/conv_unfolded.cpu.h"

#include <algorithm>
#include <vector>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/gemm.h"

namespace aspen {
namespace {

// Calls f(index) with every index into a block of this shape, the last axis moving fastest.
template <class F>
void for_each_index(const Shape& extents, F&& f) {
  Shape index(extents.size(), 0);
  for (std::size_t axis = extents.size(); axis != 0;) {
    f(index);
    for (axis = extents.size(); axis > 0 && ++index[axis - 1] == extents[axis - 1]; --axis) index[axis - 1] = 0;
  }
}

// For every pixel of y and every tap the pixel of x that the tap meets, or -1 for padding.
std::vector<std::int64_t> find_sources(const ConvAttrs& attrs, const ConvTypes& types) {
  auto spatial = [](const TensorType& type) { return Shape(type.shape.begin() + 2, type.shape.end()); };
  const Shape x = spatial(types.x);
  std::vector<std::int64_t> sources;
  for_each_index(spatial(types.y), [&](const Shape& pixel) {
    for_each_index(spatial(types.w), [&](const Shape& tap) {
      std::int64_t source = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        std::int64_t at = pixel[i] * attrs.stride[i] + tap[i] * attrs.dilation[i] - attrs.padding[i];
        source = source < 0 || at < 0 || at >= x[i] ? -1 : source * x[i] + at;
      }
      sources.push_back(source);
    });
  });
  return sources;
}

class UnfoldedWeightGrad final : public Kernel {
 public:
  UnfoldedWeightGrad(const ConvAttrs& attrs, const ConvTypes& types)
      : images_(types.x.shape[0]), channels_(types.x.shape[1]), outputs_(types.y.shape[1]),
        plane_(types.x.numel() / (images_ * channels_)), pixels_(types.y.numel() / (images_ * outputs_)),
        taps_(types.w.numel() / (outputs_ * channels_)), sources_(find_sources(attrs, types)) {
    auto products = static_cast<double>(outputs_ * rows() * row_size());
    gradients_ = cut_rows(outputs_, rows());
    columns_ = cut_rows(rows(), row_size());
    results_ = cut(row_size(), kMultiplyAddCost * products, {.multiple = 64, .least = 64});
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>((outputs_ + row_size()) * rows()) * sizeof(float);
  }

  void run(const KernelArgs& args) const override {
    auto *x = static_cast<const float*>(args.inputs[0]), *g = static_cast<const float*>(args.inputs[1]);
    auto *columns = static_cast<float*>(args.workspace), *gradients = columns + rows() * row_size();
    for_each_chunk(args, gradients_, [&](const Chunk& chunk) { gather_gradients(chunk, g, gradients); });
    for_each_chunk(args, columns_, [&](const Chunk& chunk) {
      for (std::int64_t row = chunk.begin; row < chunk.end; ++row) unfold(row, x, columns + row * row_size());
    });
    for_each_chunk(args, results_, [&](const Chunk& chunk) {
      GemmShape gemm{outputs_, chunk.size(), rows(), rows(), 1, row_size(), row_size()};
      gemm_rows(gemm, gradients, columns + chunk.begin, static_cast<float*>(args.outputs[0]) + chunk.begin);
    });
  }

 private:
  std::int64_t rows() const { return images_ * pixels_; }
  std::int64_t row_size() const { return channels_ * taps_; }
  static Chunks cut_rows(std::int64_t rows, std::int64_t size) {
    return cut(rows, kMoveCost * static_cast<double>(rows * size));
  }

  // (N, O, pixels) to (O, N, pixels)
  void gather_gradients(const Chunk& outputs, const float* g, float* gradients) const {
    for (std::int64_t output = outputs.begin; output < outputs.end; ++output) {
      for (std::int64_t image = 0; image < images_; ++image) {
        std::copy_n(g + (image * outputs_ + output) * pixels_, pixels_, gradients + output * rows() + image * pixels_);
      }
    }
  }

  void unfold(std::int64_t row, const float* x, float* to) const {
    const float* image = x + row / pixels_ * channels_ * plane_;
    const std::int64_t* sources = sources_.data() + row % pixels_ * taps_;
    for (std::int64_t tap = 0; tap < taps_; ++tap) {
      const std::int64_t source = sources[tap];
      if (source < 0) {
        for (std::int64_t c = 0; c < channels_; ++c) to[c * taps_ + tap] = 0;
      } else {
        for (std::int64_t c = 0; c < channels_; ++c) to[c * taps_ + tap] = image[c * plane_ + source];
      }
    }
  }

  std::int64_t images_, channels_, outputs_;
  std::int64_t plane_, pixels_, taps_;  // floats of a plane of x and of y, and of a kernel
  std::vector<std::int64_t> sources_;   // (pixels, taps)
  Chunks gradients_, columns_, results_;
};

}  // namespace

std::unique_ptr<Kernel> make_unfolded_weight_grad(const ConvAttrs& attrs, const ConvTypes& types) {
  return std::make_unique<UnfoldedWeightGrad>(attrs, types);
}

}  // namespace aspen
