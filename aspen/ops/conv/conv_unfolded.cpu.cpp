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

// A pixel of x that the kernel sees through one of its taps.
struct Sight {
  std::int64_t tap, pixel;
};

// By pixel of y; of one plane. Padding is not seen.
using Sights = std::vector<std::vector<Sight>>;

Sights find_sights(const ConvAttrs& attrs, const ConvTypes& types) {
  auto spatial = [](const TensorType& type) { return Shape(type.shape.begin() + 2, type.shape.end()); };
  const Shape x = spatial(types.x);
  Sights sights;
  for_each_index(spatial(types.y), [&](const Shape& pixel) {
    std::vector<Sight>& seen = sights.emplace_back();
    std::int64_t number = 0;
    for_each_index(spatial(types.w), [&](const Shape& tap) {
      std::int64_t source = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        std::int64_t at = pixel[i] * attrs.stride[i] + tap[i] * attrs.dilation[i] - attrs.padding[i];
        source = source < 0 || at < 0 || at >= x[i] ? -1 : source * x[i] + at;
      }
      if (source >= 0) seen.push_back({number, source});
      ++number;
    });
  });
  return sights;
}

struct UnfoldedShape {
  UnfoldedShape(const ConvAttrs& attrs, const ConvTypes& types)
      : images(types.x.shape[0]), channels(types.x.shape[1]), outputs(types.y.shape[1]),
        plane(types.x.numel() / (images * channels)), pixels(types.y.numel() / (images * outputs)),
        taps(types.w.numel() / (outputs * channels)), sights(find_sights(attrs, types)) {}

  std::int64_t all_pixels() const { return images * pixels; }
  std::int64_t depth() const { return channels * taps; }
  double cost() const { return kMultiplyAddCost * static_cast<double>(outputs * depth() * all_pixels()); }

  std::int64_t images, channels, outputs;
  std::int64_t plane, pixels, taps;  // floats of a plane of x and of y, and of a kernel
  Sights sights;
};

Chunks cut_rows(std::int64_t rows, std::int64_t size) {
  return cut(rows, kMoveCost * static_cast<double>(rows * size));
}

class UnfoldedForward final : public Kernel {
 public:
  UnfoldedForward(const ConvAttrs& attrs, const ConvTypes& types)
      : s_(attrs, types), channels_(cut_rows(s_.channels, s_.taps * s_.all_pixels())),
        outputs_(cut(s_.outputs, s_.cost(), {.multiple = kRows, .least = kRows})) {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>((s_.depth() + s_.outputs) * s_.all_pixels()) * sizeof(float);
  }

  void run(const KernelArgs& args) const override {
    auto *x = static_cast<const float*>(args.inputs[0]), *w = static_cast<const float*>(args.inputs[1]);
    auto* bias = args.inputs.size() > 2 ? static_cast<const float*>(args.inputs[2]) : nullptr;
    auto* y = static_cast<float*>(args.outputs[0]);
    auto *seen = static_cast<float*>(args.workspace), *sums = seen + s_.depth() * s_.all_pixels();
    for_each_chunk(args, channels_, [&](const Chunk& chunk) { unfold(chunk, x, seen); });
    for_each_chunk(args, outputs_, [&](const Chunk& chunk) {
      const std::int64_t n = s_.all_pixels(), k = s_.depth();
      const GemmShape gemm{chunk.size(), n, k, k, 1, n, n};
      float* own = sums + chunk.begin * n;
      gemm_rows(gemm, w + chunk.begin * k, seen, own, {.start = bias == nullptr ? nullptr : bias + chunk.begin});
      for (std::int64_t output = chunk.begin; output < chunk.end; ++output) {
        for (std::int64_t image = 0; image < s_.images; ++image, own += s_.pixels) {
          std::copy_n(own, s_.pixels, y + (image * s_.outputs + output) * s_.pixels);
        }
      }
    });
  }

 private:
  static constexpr std::int64_t kRows = 8;  // that a product takes at a time

  // A row for each tap of each channel: what all pixels see through it.
  void unfold(const Chunk& channels, const float* x, float* seen) const {
    const std::int64_t all = s_.all_pixels(), image = s_.channels * s_.plane;
    std::fill(seen + channels.begin * s_.taps * all, seen + channels.end * s_.taps * all, 0.0f);
    for (std::int64_t c = channels.begin; c < channels.end; ++c) {
      for (std::int64_t pixel = 0; pixel < s_.pixels; ++pixel) {
        for (const Sight& sight : s_.sights[static_cast<std::size_t>(pixel)]) {
          const float* from = x + c * s_.plane + sight.pixel;
          float* to = seen + (c * s_.taps + sight.tap) * all + pixel;
          for (std::int64_t i = 0; i < s_.images; ++i) to[i * s_.pixels] = from[i * image];
        }
      }
    }
  }

  UnfoldedShape s_;
  Chunks channels_, outputs_;
};

class UnfoldedInputGrad final : public Kernel {
 public:
  UnfoldedInputGrad(const ConvAttrs& attrs, const ConvTypes& types)
      : s_(attrs, types), images_(cut_rows(s_.images, s_.outputs * s_.pixels)),
        channels_(cut(s_.channels, s_.cost(), {.multiple = kWholeVectors, .least = kWholeVectors})) {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>((s_.depth() + s_.outputs) * s_.all_pixels()) * sizeof(float);
  }

  void run(const KernelArgs& args) const override {
    auto *g = static_cast<const float*>(args.inputs[0]), *w = static_cast<const float*>(args.inputs[1]);
    auto* dx = static_cast<float*>(args.outputs[0]);
    auto *turned = static_cast<float*>(args.workspace), *sums = turned + s_.outputs * s_.all_pixels();
    for_each_chunk(args, images_, [&](const Chunk& chunk) {
      const GemmShape image{.m = s_.pixels, .k = s_.outputs, .a_column = s_.pixels, .c_row = s_.outputs};
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
        turn_into_rows(image, g + i * s_.outputs * s_.pixels, turned + i * s_.pixels * s_.outputs);
      }
    });
    for_each_chunk(args, channels_, [&](const Chunk& chunk) {
      const std::int64_t n = chunk.size() * s_.taps, k = s_.outputs;
      float* own = sums + chunk.begin * s_.taps * s_.all_pixels();
      gemm_rows({s_.all_pixels(), n, k, k, 1, s_.depth(), n}, turned, w + chunk.begin * s_.taps, own);
      fold(chunk, own, dx);
    });
  }

 private:
  static constexpr std::int64_t kWholeVectors = 64;  // channels: then those of all their taps are as well

  // sums (all pixels, channels * taps)
  void fold(const Chunk& channels, const float* sums, float* dx) const {
    for (std::int64_t i = 0; i < s_.images; ++i) {
      float* image = dx + (i * s_.channels + channels.begin) * s_.plane;
      std::fill_n(image, channels.size() * s_.plane, 0.0f);
      for (std::int64_t pixel = 0; pixel < s_.pixels; ++pixel) {
        const auto& seen = s_.sights[static_cast<std::size_t>(pixel)];
        for (std::int64_t c = 0; c < channels.size(); ++c, sums += s_.taps) {
          for (const Sight& sight : seen) image[c * s_.plane + sight.pixel] += sums[sight.tap];
        }
      }
    }
  }

  UnfoldedShape s_;
  Chunks images_, channels_;
};

class UnfoldedWeightGrad final : public Kernel {
 public:
  UnfoldedWeightGrad(const ConvAttrs& attrs, const ConvTypes& types)
      : s_(attrs, types), gradients_(cut_rows(s_.outputs, s_.all_pixels())),
        columns_(cut_rows(s_.all_pixels(), s_.depth())),
        results_(cut(s_.depth(), s_.cost(), {.multiple = 64, .least = 64})) {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>((s_.outputs + s_.depth()) * s_.all_pixels()) * sizeof(float);
  }

  void run(const KernelArgs& args) const override {
    auto *x = static_cast<const float*>(args.inputs[0]), *g = static_cast<const float*>(args.inputs[1]);
    auto *columns = static_cast<float*>(args.workspace), *gradients = columns + s_.all_pixels() * s_.depth();
    for_each_chunk(args, gradients_, [&](const Chunk& chunk) { gather_gradients(chunk, g, gradients); });
    for_each_chunk(args, columns_, [&](const Chunk& chunk) {
      for (std::int64_t row = chunk.begin; row < chunk.end; ++row) unfold(row, x, columns + row * s_.depth());
    });
    for_each_chunk(args, results_, [&](const Chunk& chunk) {
      const GemmShape gemm{s_.outputs, chunk.size(), s_.all_pixels(), s_.all_pixels(), 1, s_.depth(), s_.depth()};
      gemm_rows(gemm, gradients, columns + chunk.begin, static_cast<float*>(args.outputs[0]) + chunk.begin);
    });
  }

 private:
  // (N, O, pixels) to (O, N, pixels)
  void gather_gradients(const Chunk& outputs, const float* g, float* gradients) const {
    for (std::int64_t output = outputs.begin; output < outputs.end; ++output) {
      for (std::int64_t image = 0; image < s_.images; ++image) {
        std::copy_n(g + (image * s_.outputs + output) * s_.pixels, s_.pixels,
                    gradients + output * s_.all_pixels() + image * s_.pixels);
      }
    }
  }

  // What the pixel of a row sees.
  void unfold(std::int64_t row, const float* x, float* to) const {
    const float* image = x + row / s_.pixels * s_.channels * s_.plane;
    std::fill_n(to, s_.depth(), 0.0f);
    for (const Sight& sight : s_.sights[static_cast<std::size_t>(row % s_.pixels)]) {
      for (std::int64_t c = 0; c < s_.channels; ++c) to[c * s_.taps + sight.tap] = image[c * s_.plane + sight.pixel];
    }
  }

  UnfoldedShape s_;
  Chunks gradients_, columns_, results_;
};

}  // namespace

std::unique_ptr<Kernel> make_unfolded_conv(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types) {
  switch (pass) {
    case ConvPass::kForward: return std::make_unique<UnfoldedForward>(attrs, types);
    case ConvPass::kInputGrad: return std::make_unique<UnfoldedInputGrad>(attrs, types);
    case ConvPass::kWeightGrad: break;
  }
  return std::make_unique<UnfoldedWeightGrad>(attrs, types);
}

}  // namespace aspen
