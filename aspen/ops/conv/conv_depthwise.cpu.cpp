#include "aspen/ops/conv/conv_depthwise.cpu.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "aspen/backends/cpu/chunks.h"

namespace aspen {
namespace {

// A copy of a plane between zeros, in which every tap lies at a fixed distance from a pixel of the result, and the
// pixels of a row of the result one float apart.
struct PlaneTaps {
  std::int64_t rows = 0, columns = 0;  // of the result, or of g
  std::int64_t pitch = 0;              // floats of a row of the copy
  std::int64_t num_taps = 0;
  const std::int64_t* taps = nullptr;  // distances
  bool are_neighbours = false;         // three floats in each of three rows
};

// Planes one behind the other, of a convolution with 3x3 taps that keeps their size, and their kernels likewise. A row
// is shorter than a vector.
struct NarrowPlanes {
  std::int64_t count = 0, rows = 0, columns = 0;
  const float *from = nullptr, *w = nullptr, *bias = nullptr;  // a bias for each, or nullptr
  const Epilogue* epilogue = nullptr;                          // a channel for each
  float* to = nullptr;
};

// What the sums of a plane begin with, and what is done to them in the end.
struct PlaneEnds {
  float start = 0;
  const Epilogue* epilogue = nullptr;
};

// The plane that is read after the one at hand.
struct PlaneNext {
  const float* plane = nullptr;
  std::int64_t size = 0;
};

// Which pixels along an axis are copied: `count` of them, the first from `from` to `to`, each a step behind the last.
struct PixelRun {
  std::int64_t to = 0, from = 0, count = 0, to_step = 1, from_step = 1;
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/conv/conv_depthwise.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

// One axis of a copy. Where pixels of the result are `stride` apart in the plane, the copy is split into that many
// phases, each a plane of its own; where pixels of the plane itself are to lie `spread` apart, zeros come between them.
struct CopyAxis {
  std::int64_t extent = 0;  // of the plane
  std::int64_t result = 0;  // extent of the result
  std::int64_t kernel = 1, dilation = 1, stride = 1;
  std::int64_t pad = 0;  // zeros before the plane; less than 0: pixels left out
  std::int64_t spread = 1;

  std::int64_t reach() const { return (kernel - 1) * dilation; }
  // Of a phase.
  std::int64_t size() const { return result + reach() / stride; }
  std::int64_t phase(std::int64_t tap) const { return tap * dilation % stride; }
  std::int64_t distance(std::int64_t tap) const { return tap * dilation / stride; }
  // Pixel `at` of a phase is this one of the plane, if there is such a one; else -1.
  std::int64_t source(std::int64_t phase, std::int64_t at) const {
    std::int64_t place = at * stride + phase - pad;
    return place >= 0 && place % spread == 0 && place / spread < extent ? place / spread : -1;
  }
};

// The pixels of a phase along an axis that come from the plane.
PixelRun run_of(const CopyAxis& axis, std::int64_t phase) {
  PixelRun run{.to_step = axis.spread, .from_step = axis.stride};
  for (std::int64_t at = axis.size(); at-- > 0;) {
    std::int64_t source = axis.source(phase, at);
    if (source < 0) continue;
    run.to = at;
    run.from = source;
    ++run.count;
  }
  return run;
}

// Whether there are two phases, the pixels of one between those of the other, which may have one more at the end.
bool take_turns(const std::vector<PixelRun>& phases) {
  if (phases.size() != 2) return false;
  const int upper = phases[0].from < phases[1].from ? 0 : 1;
  const PixelRun &first = phases[upper], &second = phases[1 - upper];
  return second.from == first.from + 1 && (first.count == second.count || first.count == second.count + 1);
}

// How planes are copied, for all planes of a convolution.
class PlaneCopy {
 public:
  PlaneCopy(const CopyAxis& y, const CopyAxis& x) : y_(y), x_(x) {
    std::int64_t lanes = ASPEN_BEST(depthwise_lanes)();
    auto rounded = [&](std::int64_t n) { return (n + lanes - 1) / lanes * lanes; };
    // Vectors that begin within a row of the result stay within a row of the copy, wherever the tap.
    pitch_ = rounded(rounded(x.result) + x.reach() / x.stride);
    phase_ = y.size() * pitch_;
    for (std::int64_t ky = 0; ky < y.kernel; ++ky) {
      for (std::int64_t kx = 0; kx < x.kernel; ++kx) {
        taps_.push_back((y.phase(ky) * x.stride + x.phase(kx)) * phase_ + y.distance(ky) * pitch_ + x.distance(kx));
      }
    }
    for (std::int64_t phase = 0; phase < y.stride; ++phase) rows_.push_back(run_of(y, phase));
    for (std::int64_t phase = 0; phase < x.stride; ++phase) columns_.push_back(run_of(x, phase));
    deals_ = take_turns(columns_);
    is_narrow_ = are_neighbours() && is_padded_by_one(y) && is_padded_by_one(x) && x.extent < lanes;
  }

  std::size_t bytes() const { return static_cast<std::size_t>(y_.stride * x_.stride * phase_) * sizeof(float); }
  std::int64_t num_taps() const { return y_.kernel * x_.kernel; }
  PlaneTaps taps() const { return {y_.result, x_.result, pitch_, num_taps(), taps_.data(), are_neighbours()}; }

  // Before the first plane: what no plane writes stays zero.
  void clear(float* copy) const { std::memset(copy, 0, bytes()); }

  // Whether narrow_planes takes the planes as they are.
  bool is_narrow() const { return is_narrow_; }

  void run(const float* plane, float* copy) const {
    for (const PixelRun& rows : rows_) {
      if (deals_) {
        ASPEN_BEST(copy_phases)(plane, x_.extent, rows, columns_.data(), copy, pitch_, phase_);
        copy += 2 * phase_;
        continue;
      }
      for (const PixelRun& columns : columns_) {
        ASPEN_BEST(copy_pixels)(plane, x_.extent, rows, columns, copy, pitch_);
        copy += phase_;
      }
    }
  }

 private:
  bool are_neighbours() const {
    auto three = [](const CopyAxis& axis) { return axis.kernel == 3 && axis.dilation == 1 && axis.stride == 1; };
    return three(y_) && three(x_);
  }
  static bool is_padded_by_one(const CopyAxis& axis) {
    return axis.pad == 1 && axis.spread == 1 && axis.result == axis.extent;
  }

  CopyAxis y_, x_;
  std::int64_t pitch_ = 0, phase_ = 0;  // floats of a row, of a phase
  std::vector<std::int64_t> taps_;
  std::vector<PixelRun> rows_, columns_;  // per phase
  bool deals_ = false;                    // neighbours in a row go to two phases in turns
  bool is_narrow_ = false;                // rows leave a lane of a vector for the zero beside them
};

// The gradient by the input is a convolution of g, spread by the stride, with the kernel turned around.
PlaneCopy copy_of(ConvPass pass, const ConvShape& s) {
  CopyAxis y{s.height, s.out_height, s.kernel_y, s.dilation_y, s.stride_y, s.pad_y};
  CopyAxis x{s.width, s.out_width, s.kernel_x, s.dilation_x, s.stride_x, s.pad_x};
  if (pass != ConvPass::kInputGrad) return {y, x};
  CopyAxis turned_y{s.out_height, s.height, s.kernel_y, s.dilation_y, 1, y.reach() - s.pad_y, s.stride_y};
  CopyAxis turned_x{s.out_width, s.width, s.kernel_x, s.dilation_x, 1, x.reach() - s.pad_x, s.stride_x};
  return {turned_y, turned_x};
}

class DepthwiseConv final : public Kernel {
 public:
  DepthwiseConv(ConvPass pass, const ConvShape& s, const ConvFinish& finish)
      : pass_(pass), s_(s), finish_(finish), copy_(copy_of(pass, s)), x_plane_(s.height * s.width),
        y_plane_(s.out_height * s.out_width) {
    // Channels for the gradient by the weights, which is a sum over the images.
    std::int64_t planes = pass == ConvPass::kWeightGrad ? s.channels : s.images * s.channels;
    std::int64_t pixels = pass == ConvPass::kInputGrad ? x_plane_ : y_plane_;
    auto products = static_cast<double>(s.images * s.channels * pixels * copy_.num_taps());
    auto moves = static_cast<double>(s.images * s.channels * (x_plane_ + y_plane_));
    chunks_ = cut(planes, 4 * kMultiplyAddCost * products + kMoveCost * moves);
    std::size_t sums = pass == ConvPass::kForward ? 0 : static_cast<std::size_t>(copy_.num_taps()) * kSumBytes;
    chunk_bytes_ = (copy_.bytes() + sums + 63) / 64 * 64;
  }

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(chunks_.count()) * chunk_bytes_; }

  void run(const KernelArgs& args) const override {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      auto* own = static_cast<std::byte*>(args.workspace) + static_cast<std::size_t>(chunk.index) * chunk_bytes_;
      auto *copy = reinterpret_cast<float*>(own), *sums = reinterpret_cast<float*>(own + copy_.bytes());
      copy_.clear(copy);
      switch (pass_) {
        case ConvPass::kForward: return copy_.is_narrow() ? narrow_forward(args, chunk) : forward(args, chunk, copy);
        case ConvPass::kInputGrad: return input_grad(args, chunk, copy, sums);
        case ConvPass::kWeightGrad: return weight_grad(args, chunk, copy, sums);
      }
    });
  }

 private:
  static constexpr std::size_t kSumBytes = 64;  // the widest vector

  static const float* input(const KernelArgs& args, std::size_t i) {
    return i < args.inputs.size() ? static_cast<const float*>(args.inputs[i]) : nullptr;
  }

  static PlaneNext next(const float* planes, std::int64_t size, std::int64_t plane, const Chunk& chunk) {
    return plane + 1 < chunk.end ? PlaneNext{planes + (plane + 1) * size, size} : PlaneNext{};
  }

  // Planes of one image at a time.
  void narrow_forward(const KernelArgs& args, const Chunk& chunk) const {
    const float *x = input(args, 0), *w = input(args, 1), *bias = input(args, 2);
    auto* y = static_cast<float*>(args.outputs[0]);
    const std::optional<Epilogue> whole = finish_.epilogue(args);
    for (std::int64_t plane = chunk.begin, count = 0; plane < chunk.end; plane += count) {
      const std::int64_t channel = plane % s_.channels;
      count = std::min(s_.channels - channel, chunk.end - plane);
      const Epilogue epilogue = whole ? whole->from(channel, plane * y_plane_) : Epilogue{};
      ASPEN_BEST(narrow_planes)
      ({count, s_.height, s_.width, x + plane * x_plane_, w + channel * copy_.num_taps(),
        bias != nullptr ? bias + channel : nullptr, whole ? &epilogue : nullptr, y + plane * y_plane_});
    }
  }

  void forward(const KernelArgs& args, const Chunk& chunk, float* copy) const {
    const float *x = input(args, 0), *w = input(args, 1), *bias = input(args, 2);
    auto* y = static_cast<float*>(args.outputs[0]);
    const std::optional<Epilogue> whole = finish_.epilogue(args);
    for (std::int64_t plane = chunk.begin; plane < chunk.end; ++plane) {
      std::int64_t channel = plane % s_.channels;
      const Epilogue epilogue = whole ? whole->from(channel, plane * y_plane_) : Epilogue{};
      const PlaneEnds ends{bias != nullptr ? bias[channel] : 0, whole ? &epilogue : nullptr};
      copy_.run(x + plane * x_plane_, copy);
      ASPEN_BEST(plane_taps)
      (copy_.taps(), copy, w + channel * copy_.num_taps(), ends, y + plane * y_plane_, next(x, x_plane_, plane, chunk));
    }
  }

  void input_grad(const KernelArgs& args, const Chunk& chunk, float* copy, float* turned) const {
    const float *g = input(args, 0), *w = input(args, 1);
    auto* dx = static_cast<float*>(args.outputs[0]);
    for (std::int64_t plane = chunk.begin; plane < chunk.end; ++plane) {
      const float* kernel = w + plane % s_.channels * copy_.num_taps();
      std::reverse_copy(kernel, kernel + copy_.num_taps(), turned);
      if (copy_.is_narrow()) {
        ASPEN_BEST(narrow_planes)
        ({1, s_.height, s_.width, g + plane * y_plane_, turned, nullptr, nullptr, dx + plane * x_plane_});
        continue;
      }
      copy_.run(g + plane * y_plane_, copy);
      ASPEN_BEST(plane_taps)
      (copy_.taps(), copy, turned, {}, dx + plane * x_plane_, next(g, y_plane_, plane, chunk));
    }
  }

  void weight_grad(const KernelArgs& args, const Chunk& chunk, float* copy, float* sums) const {
    const float *x = input(args, 0), *g = input(args, 1);
    auto* dw = static_cast<float*>(args.outputs[0]);
    for (std::int64_t channel = chunk.begin; channel < chunk.end; ++channel) {
      std::memset(sums, 0, static_cast<std::size_t>(copy_.num_taps()) * kSumBytes);
      for (std::int64_t image = 0; image < s_.images; ++image) {
        std::int64_t plane = image * s_.channels + channel;
        copy_.run(x + plane * x_plane_, copy);
        ASPEN_BEST(plane_pixels)(copy_.taps(), copy, g + plane * y_plane_, sums);
      }
      ASPEN_BEST(sum_lanes)(sums, copy_.num_taps(), dw + channel * copy_.num_taps());
    }
  }

  ConvPass pass_;
  ConvShape s_;
  ConvFinish finish_;
  PlaneCopy copy_;
  std::int64_t x_plane_, y_plane_;  // floats
  Chunks chunks_;
  std::size_t chunk_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_depthwise_conv(ConvPass pass, const ConvShape& shape, const ConvFinish& finish) {
  return std::make_unique<DepthwiseConv>(pass, shape, finish);
}

}  // namespace aspen
