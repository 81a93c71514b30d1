// Convolutions and maxima over windows of images that lie batch last. Work is cut between lines, so that threads find
// in their own caches most of what they made of an image; the gradient by the weights between blocks of outputs as
// well.
#include "aspen/ops/batch_last/batch_last.cpu.h"

#include <algorithm>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/ops/batch_last/batch_last.h"

#define ASPEN_ISA_FILE "aspen/ops/batch_last/batch_last_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

bool declines(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  bool is_empty = request.outputs[0].numel() == 0;
  for (const KernelInput& input : request.inputs) is_empty |= input.present && input.type.numel() == 0;
  if (x.dtype == DType::kF32 && !is_empty) return false;
  why = fmt::format("{}: the vector loops take f32 with at least one element, not {}", request.op, to_string(x));
  return true;
}

// The padding of x, and a copy of x with it where there is any.
struct Padding {
  std::int64_t y = 0, x = 0;

  bool exists() const { return y > 0 || x > 0; }
};

std::int64_t extent(std::int64_t in, std::int64_t kernel, std::int64_t dilation) {
  return in - (kernel - 1) * dilation;
}

LastConv conv_of(const Shape& x, const Shape& w, const ConvLastAttrs& attrs) {
  LastConv s;
  s.images = x[3];
  s.channels = x[0];
  s.outputs = w[0];
  s.height = x[1] + 2 * attrs.padding[0];
  s.width = x[2] + 2 * attrs.padding[1];
  s.kernel_y = w[2];
  s.kernel_x = w[3];
  s.dilation_y = attrs.dilation[0];
  s.dilation_x = attrs.dilation[1];
  s.out_height = extent(s.height, s.kernel_y, s.dilation_y);
  s.out_width = extent(s.width, s.kernel_x, s.dilation_x);
  return s;
}

Padding padding_of(const ConvLastAttrs& attrs) { return {attrs.padding[0], attrs.padding[1]}; }

LastWindow window_of(const std::vector<std::int64_t>& window) { return {window[0], window[1]}; }

constexpr std::int64_t kLeastLines = 4;  // of a part whose neighbours read some of its lines

double nanoseconds(const LastConv& s) {
  return kMultiplyAddCost * static_cast<double>(s.outputs * s.out_plane()) * static_cast<double>(s.taps());
}

// Pieces of the workspace, each at a multiple of 64 bytes.
class Pieces {
 public:
  // Where `floats` more begin, in floats.
  std::int64_t add(std::int64_t floats) {
    std::int64_t place = size_;
    size_ += (floats + 15) / 16 * 16;
    return place;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(size_) * sizeof(float); }

 private:
  std::int64_t size_ = 0;
};

// x between zeros, if it has padding.
class PaddedImages {
 public:
  PaddedImages(const LastConv& s, Padding padding, Pieces& pieces)
      : s_(s), padding_(padding), place_(pieces.add(padding.exists() ? s.channels * s.plane() : 0)),
        chunks_(cut(s.channels * s.height, kMoveCost * static_cast<double>(s.channels * s.plane()))) {}

  const float* make(const KernelArgs& args, const float* x) const {
    if (!padding_.exists()) return x;
    float* padded = static_cast<float*>(args.workspace) + place_;
    std::int64_t height = s_.height - 2 * padding_.y, line = s_.line(), left = padding_.x * s_.images;
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
        std::int64_t c = i / s_.height, y = i % s_.height - padding_.y;
        float* to = padded + i * line;
        if (y < 0 || y >= height) {
          std::fill_n(to, line, 0.0f);
          continue;
        }
        std::fill_n(to, left, 0.0f);
        std::copy_n(x + (c * height + y) * (line - 2 * left), line - 2 * left, to + left);
        std::fill_n(to + line - left, left, 0.0f);
      }
    });
    return padded;
  }

 private:
  LastConv s_;
  Padding padding_;
  std::int64_t place_;
  Chunks chunks_;
};

const float* bias_of(const KernelArgs& args) {
  return args.inputs.size() > 2 ? static_cast<const float*>(args.inputs[2]) : nullptr;
}

// -- forward ----------------------------------------------------------------------------------------------------------
std::unique_ptr<Kernel> make_conv(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  const auto& attrs = request.attrs.as<ConvLastAttrs>();
  LastConv s = conv_of(request.inputs[0].type.shape, request.inputs[1].type.shape, attrs);
  Pieces pieces;
  PaddedImages images(s, padding_of(attrs), pieces);
  std::int64_t packed_at = pieces.add(ASPEN_BEST(packed_floats)(s));
  Chunks chunks = cut(s.out_height, nanoseconds(s));
  return make_kernel(
      [=, relu = attrs.relu](const KernelArgs& args) {
        auto* packed = static_cast<float*>(args.workspace) + packed_at;
        auto* y = static_cast<float*>(args.outputs[0]);
        const float* x = images.make(args, static_cast<const float*>(args.inputs[0]));
        ASPEN_BEST(pack_forward)(s, static_cast<const float*>(args.inputs[1]), bias_of(args), packed);
        for_each_chunk(args, chunks, [&](const Chunk& chunk) {
          ASPEN_BEST(forward_lines)(s, {chunk.begin, chunk.end}, x, packed, relu, y);
        });
      },
      pieces.bytes());
}

std::unique_ptr<Kernel> make_conv_pool(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  const auto& attrs = request.attrs.as<ConvLastPoolAttrs>();
  LastConv s = conv_of(request.inputs[0].type.shape, request.inputs[1].type.shape, attrs.conv);
  LastWindow window = window_of(attrs.window);
  Pieces pieces;
  PaddedImages images(s, padding_of(attrs.conv), pieces);
  std::int64_t packed_at = pieces.add(ASPEN_BEST(packed_floats)(s));
  Chunks chunks = cut(s.out_height / window.y, nanoseconds(s));
  std::int64_t own = (ASPEN_BEST(forward_pool_workspace)(s, window) + 15) / 16 * 16;
  std::int64_t lines_at = pieces.add(own * chunks.count());
  return make_kernel(
      [=, relu = attrs.conv.relu](const KernelArgs& args) {
        auto* workspace = static_cast<float*>(args.workspace);
        auto* packed = workspace + packed_at;
        auto* y = static_cast<float*>(args.outputs[0]);
        auto* place = static_cast<std::uint8_t*>(args.outputs[1]);
        const float* x = images.make(args, static_cast<const float*>(args.inputs[0]));
        ASPEN_BEST(pack_forward)(s, static_cast<const float*>(args.inputs[1]), bias_of(args), packed);
        for_each_chunk(args, chunks, [&](const Chunk& chunk) {
          float* lines = workspace + lines_at + slot_of(args) * own;
          ASPEN_BEST(forward_pool_lines)
          (s, window, {chunk.begin, chunk.end}, x, packed, relu, y, place, lines);
        });
      },
      pieces.bytes());
}

// -- gradient by the input --------------------------------------------------------------------------------------------
bool is_alone(const KernelArgs& args) {
  return args.step == nullptr || args.step->team == nullptr || args.step->team->num_threads() < 2;
}

// With padding at the sides, lines of dx are made with it first.
std::unique_ptr<Kernel> make_input_grad(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  const auto& attrs = request.attrs.as<ConvLastGradAttrs>();
  LastConv s = conv_of(attrs.shape, request.inputs[1].type.shape, attrs.conv);
  Padding padding = padding_of(attrs.conv);
  Pieces pieces;
  std::int64_t packed_at = pieces.add(ASPEN_BEST(packed_floats)(s));
  std::int64_t height = attrs.shape[1], line = attrs.shape[2] * s.images;
  // Neighbours read the lines of g between them twice: few parts, and one where there is one thread.
  Chunks few = cut(height, nanoseconds(s), {.least = kLeastLines}), whole(height, height);
  std::int64_t padded_at = pieces.add(padding.x > 0 ? s.channels * height * s.line() : 0);
  return make_kernel(
      [=](const KernelArgs& args) {
        auto* workspace = static_cast<float*>(args.workspace);
        auto* packed = workspace + packed_at;
        auto* g = static_cast<const float*>(args.inputs[0]);
        auto* dx = static_cast<float*>(args.outputs[0]);
        ASPEN_BEST(pack_input_grad)(s, static_cast<const float*>(args.inputs[1]), packed);
        for_each_chunk(args, is_alone(args) ? whole : few, [&](const Chunk& chunk) {
          float* sums = padding.x > 0 ? workspace + padded_at : dx;  // (C, height, s.line())
          std::int64_t first = chunk.begin * s.line(), plane = height * s.line();
          for (std::int64_t c = 0; c < s.channels; ++c) {
            std::fill_n(sums + c * plane + first, chunk.size() * s.line(), 0.0f);
          }
          LineRange lines{chunk.begin + padding.y, chunk.end + padding.y};
          ASPEN_BEST(input_grad_lines)(s, lines, g, packed, sums + first, plane);
          if (padding.x == 0) return;
          for (std::int64_t c = 0; c < s.channels; ++c) {
            for (std::int64_t y = chunk.begin; y < chunk.end; ++y) {
              const float* from = sums + c * plane + y * s.line() + padding.x * s.images;
              std::copy_n(from, line, dx + (c * height + y) * line);
            }
          }
        });
      },
      pieces.bytes());
}

// -- gradient by the weights ------------------------------------------------------------------------------------------
// A gradient is the sum of those of the first and of the second half of the lines, where there are enough of them: so
// many that two threads can share them.
Chunks weight_parts(std::int64_t lines, const LastConv& s) {
  bool is_cut = lines >= 2 * kLeastLines && worthwhile_parts(nanoseconds(s)) > 1;
  return {lines, is_cut ? (lines + 1) / 2 : lines};
}

// `add(lines, o, x, dw, db, workspace)` makes the share of some lines, of a block of outputs from o on; `own` floats
// are its workspace.
template <class Add>
std::unique_ptr<Kernel> make_weight_grad(const LastConv& s, Padding padding, std::int64_t lines, std::int64_t own,
                                         Add add) {
  Pieces pieces;
  PaddedImages images(s, padding, pieces);
  Chunks parts = weight_parts(lines, s);
  std::int64_t block = ASPEN_BEST(weight_output_block)(s), blocks = (s.outputs + block - 1) / block;
  own = (own + 15) / 16 * 16;
  std::int64_t work_at = pieces.add(own * parts.count() * blocks);
  std::int64_t weights = s.outputs * s.taps(), extra = parts.count() - 1;
  std::int64_t dw_at = pieces.add(weights * extra), db_at = pieces.add(s.outputs * extra);
  return make_kernel(
      [=](const KernelArgs& args) {
        auto* workspace = static_cast<float*>(args.workspace);
        auto *dw = static_cast<float*>(args.outputs[0]), *db = static_cast<float*>(args.outputs[1]);
        const float* x = images.make(args, static_cast<const float*>(args.inputs[0]));
        for_each_chunk(args, Chunks(parts.count() * blocks, 1), [&](const Chunk& chunk) {
          std::int64_t part = chunk.index / blocks, o = chunk.index % blocks * block;
          float* part_dw = part == 0 ? dw : workspace + dw_at + (part - 1) * weights;
          float* part_db = part == 0 ? db : workspace + db_at + (part - 1) * s.outputs;
          add(args, LineRange{parts[part].begin, parts[part].end}, o, x, part_dw + o * s.taps(), part_db + o,
              workspace + work_at + slot_of(args) * own);
        });
        add_parts(args, dw, workspace + dw_at, weights, extra);
        add_parts(args, db, workspace + db_at, s.outputs, extra);
      },
      pieces.bytes());
}

std::unique_ptr<Kernel> make_conv_weight_grad(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  const auto& attrs = request.attrs.as<ConvLastGradAttrs>();
  LastConv s = conv_of(request.inputs[0].type.shape, attrs.shape, attrs.conv);
  return make_weight_grad(s, padding_of(attrs.conv), s.out_height, ASPEN_BEST(weight_sums_floats)(s),
                          [s](const KernelArgs& args, LineRange lines, std::int64_t o, const float* x, float* dw,
                              float* db, float* workspace) {
                            auto* g = static_cast<const float*>(args.inputs[1]);
                            ASPEN_BEST(weight_grad_lines)(s, lines, o, x, g, dw, db, workspace);
                          });
}

std::unique_ptr<Kernel> make_pool_weight_grad(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  const auto& attrs = request.attrs.as<ConvLastPoolGradAttrs>();
  LastConv s = conv_of(request.inputs[0].type.shape, attrs.shape, attrs.pool.conv);
  LastWindow window = window_of(attrs.pool.window);
  return make_weight_grad(s, padding_of(attrs.pool.conv), s.out_height / window.y,
                          ASPEN_BEST(pool_weight_grad_workspace)(s, window),
                          [s, window](const KernelArgs& args, LineRange lines, std::int64_t o, const float* x,
                                      float* dw, float* db, float* workspace) {
                            auto* g = static_cast<const float*>(args.inputs[1]);
                            auto* place = static_cast<const std::uint8_t*>(args.inputs[2]);
                            ASPEN_BEST(pool_weight_grad_lines)
                            (s, window, lines, o, x, g, place, dw, db, workspace);
                          });
}

// -- maxima -----------------------------------------------------------------------------------------------------------
LastPool pool_of(const Shape& x, const std::vector<std::int64_t>& window) {
  return {x[0], x[1], x[2], x[3], window_of(window)};
}

// By lines, as the convolutions before and after.
Chunks cut_lines(const LastPool& p) {
  return cut(p.pooled_height(), kMoveCost * static_cast<double>(p.planes * p.height * p.line()));
}

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  LastPool p = pool_of(request.inputs[0].type.shape, request.attrs.as<MaxPoolLastAttrs>().window);
  return make_kernel([p, chunks = cut_lines(p)](const KernelArgs& args) {
    auto* x = static_cast<const float*>(args.inputs[0]);
    auto* y = static_cast<float*>(args.outputs[0]);
    auto* place = static_cast<std::uint8_t*>(args.outputs[1]);
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      ASPEN_BEST(pool_lines)(p, {chunk.begin, chunk.end}, x, y, place);
    });
  });
}

std::unique_ptr<Kernel> make_max_pool_grad(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  const auto& attrs = request.attrs.as<MaxPoolLastGradAttrs>();
  LastPool p = pool_of(attrs.shape, attrs.window);
  return make_kernel([p, chunks = cut_lines(p)](const KernelArgs& args) {
    auto* g = static_cast<const float*>(args.inputs[0]);
    auto* place = static_cast<const std::uint8_t*>(args.inputs[1]);
    auto* dx = static_cast<float*>(args.outputs[0]);
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      ASPEN_BEST(unpool_lines)(p, {chunk.begin, chunk.end}, g, place, dx);
    });
  });
}

}  // namespace

void register_batch_last_cpu(KernelRegistry& kernels) {
  add_with_half(kernels, "conv_last", make_conv);
  add_with_half(kernels, "conv_last_pool", make_conv_pool);
  add_with_half(kernels, "conv_last_input_grad", make_input_grad);
  add_with_half(kernels, "conv_last_weight_grad", make_conv_weight_grad);
  add_with_half(kernels, "conv_last_pool_weight_grad", make_pool_weight_grad);
  add_with_half(kernels, "max_pool_last", make_max_pool);
  add_with_half(kernels, "max_pool_last_grad", make_max_pool_grad);
}

}  // namespace aspen
