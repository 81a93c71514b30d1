// A stride leaves pixels out: those that count are gathered in the workspace, or spread from there.
#include "aspen/ops/conv/conv_pointwise.cpu.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/gemm.h"
#include "aspen/backends/cpu/product_blocks.h"

namespace aspen {
namespace {

bool all_are(const std::vector<std::int64_t>& values, std::int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t value) { return value == wanted; });
}

std::int64_t product(Shape::const_iterator begin, Shape::const_iterator end) {
  return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
}

// Per group: every image of every group is a product of its own.
struct PointwiseShape {
  std::int64_t images = 1, groups = 1, channels = 1, outputs = 1, pixels = 1;

  std::int64_t x_image() const { return groups * channels * pixels; }
  std::int64_t y_image() const { return groups * outputs * pixels; }
  double cost() const { return kMultiplyAddCost * static_cast<double>(x_image() * images * outputs); }
};

PointwiseShape shape_of(const ConvAttrs& attrs, const ConvTypes& types) {
  PointwiseShape s;
  s.images = types.x.shape[0];
  s.groups = attrs.groups;
  s.channels = types.w.shape[1];
  s.outputs = types.w.shape[0] / attrs.groups;
  s.pixels = product(types.y.shape.begin() + 2, types.y.shape.end());
  return s;
}

// Pixels of x that a stride leaves, for all planes of all images.
class StridedPixels {
 public:
  StridedPixels(const ConvAttrs& attrs, const ConvTypes& types) {
    std::size_t axes = attrs.stride.size();
    Shape whole(types.x.shape.begin() + 2, types.x.shape.end());
    std::vector<std::int64_t> strides = contiguous_strides(whole);
    for (std::size_t i = 0; i < axes; ++i) {
      extents_[3 - axes + i] = types.y.shape[i + 2];
      steps_[3 - axes + i] = strides[i] * attrs.stride[i];
    }
    planes_ = types.x.shape[0] * types.x.shape[1];
    whole_ = product(whole.begin(), whole.end());
    pixels_ = extents_[0] * extents_[1] * extents_[2];
    chunks_ = cut(planes_, kMoveCost * static_cast<double>(planes_ * whole_));
  }

  std::int64_t size() const { return planes_ * pixels_; }

  void gather(const KernelArgs& args, const float* x, float* pixels) const {
    for_each_pixel_row(args, [&](std::int64_t at, std::int64_t from) {
      for (std::int64_t i = 0; i < extents_[2]; ++i) pixels[at + i] = x[from + i * steps_[2]];
    });
  }

  // The other pixels become zero.
  void spread(const KernelArgs& args, const float* pixels, float* x) const {
    for_each_chunk(args, chunks_,
                   [&](const Chunk& chunk) { std::fill(x + chunk.begin * whole_, x + chunk.end * whole_, 0.0f); });
    for_each_pixel_row(args, [&](std::int64_t from, std::int64_t at) {
      for (std::int64_t i = 0; i < extents_[2]; ++i) x[at + i * steps_[2]] = pixels[from + i];
    });
  }

 private:
  template <class F>
  void for_each_pixel_row(const KernelArgs& args, F&& row) const {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      for (std::int64_t plane = chunk.begin; plane < chunk.end; ++plane) {
        for (std::int64_t i = 0; i < extents_[0] * extents_[1]; ++i) {
          row(plane * pixels_ + i * extents_[2],
              plane * whole_ + i / extents_[1] * steps_[0] + i % extents_[1] * steps_[1]);
        }
      }
    });
  }

  std::int64_t extents_[3] = {1, 1, 1};  // of y
  std::int64_t steps_[3] = {0, 0, 0};    // floats of x from one to the next
  std::int64_t planes_ = 0, whole_ = 0, pixels_ = 0;
  Chunks chunks_;
};

class PointwiseConv final : public Kernel {
 public:
  PointwiseConv(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types, const ConvFinish& finish)
      : pass_(pass), s_(shape_of(attrs, types)), finish_(finish), pixels_(attrs, types),
        strided_(!all_are(attrs.stride, 1)) {
    std::int64_t products = s_.images * s_.groups;
    switch (pass) {
      case ConvPass::kForward: blocks_ = ProductBlocks(products, s_.outputs, s_.pixels, s_.cost(), kRowsGrain); break;
      case ConvPass::kInputGrad:
        blocks_ = ProductBlocks(products, s_.channels, s_.pixels, s_.cost(), kRowsGrain);
        break;
      case ConvPass::kWeightGrad:
        blocks_ = ProductBlocks(s_.groups, s_.outputs, s_.channels, s_.cost(), kColumnsGrain);
        break;
    }
  }

  std::size_t workspace_bytes() const override {
    return strided_ ? static_cast<std::size_t>(pixels_.size()) * sizeof(float) : 0;
  }

  void run(const KernelArgs& args) const override {
    auto *a = static_cast<const float*>(args.inputs[0]), *b = static_cast<const float*>(args.inputs[1]);
    auto *result = static_cast<float*>(args.outputs[0]), *workspace = static_cast<float*>(args.workspace);
    if (strided_ && pass_ != ConvPass::kInputGrad) {
      pixels_.gather(args, a, workspace);
      a = workspace;
    }
    switch (pass_) {
      case ConvPass::kForward: return forward(args, a, b, result);
      case ConvPass::kWeightGrad: return weight_grad(args, a, b, result);
      case ConvPass::kInputGrad: break;
    }
    if (!strided_) return input_grad(args, a, b, result);
    input_grad(args, a, b, workspace);
    pixels_.spread(args, workspace, result);
  }

 private:
  void forward(const KernelArgs& args, const float* x, const float* w, float* y) const {
    auto* bias = args.inputs.size() > 2 ? static_cast<const float*>(args.inputs[2]) : nullptr;
    const std::optional<Epilogue> whole = finish_.epilogue(args);
    blocks_.for_each(args, [&](std::int64_t product, Range rows, Range columns) {
      std::int64_t first = product % s_.groups * s_.outputs + rows.begin;  // of the outputs of all groups
      std::int64_t place = (product * s_.outputs + rows.begin) * s_.pixels + columns.begin;
      const Epilogue epilogue = whole ? whole->from(first, place) : Epilogue{};
      const GemmEnds ends{bias == nullptr ? nullptr : bias + first, whole ? &epilogue : nullptr};
      GemmShape gemm{rows.size(), columns.size(), s_.channels, s_.channels, 1, s_.pixels, s_.pixels};
      gemm_rows(gemm, w + first * s_.channels, x + product * s_.channels * s_.pixels + columns.begin, y + place, ends);
    });
  }

  // dx (C, P) = w (O, C) transposed * g (O, P)
  void input_grad(const KernelArgs& args, const float* g, const float* w, float* dx) const {
    blocks_.for_each(args, [&](std::int64_t product, Range rows, Range columns) {
      GemmShape gemm{rows.size(), columns.size(), s_.outputs, 1, s_.channels, s_.pixels, s_.pixels};
      gemm_rows(gemm, w + product % s_.groups * s_.outputs * s_.channels + rows.begin,
                g + product * s_.outputs * s_.pixels + columns.begin,
                dx + (product * s_.channels + rows.begin) * s_.pixels + columns.begin);
    });
  }

  // dw (O, C) = the sum over the images of g (O, P) * x (C, P) transposed
  void weight_grad(const KernelArgs& args, const float* x, const float* g, float* dw) const {
    GemmBatch batch{s_.images, s_.y_image(), s_.x_image()};
    blocks_.for_each(args, [&](std::int64_t group, Range rows, Range columns) {
      GemmShape gemm{rows.size(), columns.size(), s_.pixels, s_.pixels, 1, s_.pixels, s_.channels};
      gemm_columns(gemm, g + (group * s_.outputs + rows.begin) * s_.pixels,
                   x + (group * s_.channels + columns.begin) * s_.pixels,
                   dw + (group * s_.outputs + rows.begin) * s_.channels + columns.begin, batch);
    });
  }

  ConvPass pass_;
  PointwiseShape s_;
  ConvFinish finish_;
  StridedPixels pixels_;
  bool strided_;
  ProductBlocks blocks_;
};

}  // namespace

bool is_pointwise_conv(const ConvAttrs& attrs, const ConvTypes& types) {
  return product(types.w.shape.begin() + 2, types.w.shape.end()) == 1 && all_are(attrs.padding, 0);
}

std::unique_ptr<Kernel> make_pointwise_conv(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types,
                                            const ConvFinish& finish) {
  return std::make_unique<PointwiseConv>(pass, attrs, types, finish);
}

}  // namespace aspen
