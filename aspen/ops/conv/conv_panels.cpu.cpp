#include "aspen/ops/conv/conv_panels.cpu.h"

#include <algorithm>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/gemm.h"
#include "aspen/backends/cpu/onednn.h"
#include "aspen/backends/cpu/product_blocks.h"
#include "aspen/ops/conv/conv_finish.cpu.h"

namespace aspen {
namespace {

constexpr std::int64_t kWholeVectors = 16;  // of any instruction set
constexpr std::int64_t kManyPixels = 48;    // products of so many rows reach their full speed

std::size_t bytes_of(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

// y (P, O) = x (P, K) * w (O, K) transposed, with O outputs, P pixels of all images and K = taps * channels: x is what
// the kernel sees at each pixel. Planes are turned into channels side by side, and where a pixel of y sees several
// pixels of x, or not each of them, those are copied behind each other.
class PanelConv final : public Kernel {
 public:
  PanelConv(const ConvShape& s, const ConvFinish& finish)
      : s_(s), finish_(finish), width_(gemm_panel_width()), taps_(s.kernel_y * s.kernel_x), depth_(s.channels * taps_),
        plane_(s.height * s.width), pixels_(s.out_height * s.out_width), rows_(s.images * pixels_),
        sees_all_(taps_ == 1 && s.stride_y * s.stride_x == 1 && s.pad_y + s.pad_x == 0),
        packing_(cut((s.outputs + width_ - 1) / width_, kMoveCost * static_cast<double>(s.outputs * depth_))),
        turning_(cut(s.images * blocks_of_channels(), kMoveCost * static_cast<double>(s.images * s.channels * plane_))),
        seeing_(cut(rows_, kReadCost * static_cast<double>(rows_ * depth_))),
        blocks_(1, rows_, s.outputs, kMultiplyAddCost * static_cast<double>(rows_ * s.outputs * depth_),
                {kManyPixels, width_}) {
    onednn::Workspace count;
    plan(count);
    workspace_bytes_ = count.used();
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::size_t packed_bytes() const override { return bytes_of(packing_.items() * panel_floats()); }
  void pack(const KernelArgs& args, void* packed) const override {
    for_each_chunk(args, packing_, [&](const Chunk& chunk) {
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
        pack_panel(static_cast<const float*>(args.inputs[1]) + i * width_ * depth_,
                   std::min(width_, s_.outputs - i * width_), static_cast<float*>(packed) + i * panel_floats());
      }
    });
  }

  void run(const KernelArgs& args) const override {
    onednn::Workspace workspace(args.workspace);
    const Memory memory = plan(workspace);
    if (args.packed == nullptr) pack(args, memory.panels);
    const auto* panels = args.packed == nullptr ? memory.panels : static_cast<const float*>(args.packed);
    turn(args, memory.turned);
    if (!sees_all_) see(args, memory.turned, memory.seen);
    blocks_.for_each(args, [&](std::int64_t, const Range& rows, const Range& outputs) {
      float* sums = memory.sums + slot_of(args) * blocks_.most_floats();
      multiply(args, sees_all_ ? memory.turned : memory.seen, panels, rows, outputs, sums);
      write(args, rows, outputs, sums);
    });
  }

 private:
  static constexpr std::int64_t kChannels = 64;  // turned at a time

  struct Memory {
    float *panels, *turned, *seen, *sums;
  };

  std::int64_t panel_floats() const { return width_ * depth_; }
  std::int64_t blocks_of_channels() const { return (s_.channels + kChannels - 1) / kChannels; }

  Memory plan(onednn::Workspace& workspace) const {
    Memory memory{};
    memory.panels = workspace.take<float>(packed_bytes());
    memory.turned = workspace.take<float>(bytes_of(s_.images * plane_ * s_.channels));
    memory.seen = workspace.take<float>(sees_all_ ? 0 : bytes_of(rows_ * depth_));
    memory.sums = workspace.take<float>(bytes_of(blocks_.num_chunks() * blocks_.most_floats()));
    return memory;
  }

  // Some outputs' kernels, (channels, taps) each, as (taps, channels) rows of outputs.
  void pack_panel(const float* w, std::int64_t outputs, float* panel) const {
    if (taps_ == 1) return turn_into_panels({.n = outputs, .k = depth_, .b_row = depth_}, w, panel);
    constexpr std::int64_t kRows = 32, kMostWidth = 64;
    float some[kRows * kMostWidth];
    for (std::int64_t first = 0; first < depth_; first += kRows) {
      const std::int64_t count = std::min(kRows, depth_ - first);
      turn_into_panels({.n = outputs, .k = count, .b_row = depth_}, w + first, some);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t row = (first + i) % taps_ * s_.channels + (first + i) / taps_;
        std::copy_n(some + i * width_, outputs, panel + row * width_);
      }
    }
  }

  // (images, channels, pixels) into (images, pixels, channels)
  void turn(const KernelArgs& args, float* turned) const {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    for_each_chunk(args, turning_, [&](const Chunk& chunk) {
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
        const std::int64_t image = i / blocks_of_channels() * s_.channels, c = i % blocks_of_channels() * kChannels;
        turn_into_rows(
            {.m = plane_, .k = std::min(kChannels, s_.channels - c), .a_column = plane_, .c_row = s_.channels},
            x + (image + c) * plane_, turned + image * plane_ + c);
      }
    });
  }

  void see(const KernelArgs& args, const float* turned, float* seen) const {
    for_each_chunk(args, seeing_, [&](const Chunk& chunk) {
      float* to = seen + chunk.begin * depth_;
      for (std::int64_t row = chunk.begin; row < chunk.end; ++row) {
        const float* image = turned + row / pixels_ * plane_ * s_.channels;
        const std::int64_t top = row % pixels_ / s_.out_width * s_.stride_y - s_.pad_y;
        const std::int64_t left = row % s_.out_width * s_.stride_x - s_.pad_x;
        for (std::int64_t ky = 0; ky < s_.kernel_y; ++ky) {
          for (std::int64_t kx = 0; kx < s_.kernel_x; ++kx, to += s_.channels) {
            const std::int64_t y = top + ky * s_.dilation_y, x = left + kx * s_.dilation_x;
            if (y < 0 || y >= s_.height || x < 0 || x >= s_.width) {
              std::fill_n(to, s_.channels, 0.0f);
            } else {
              std::copy_n(image + (y * s_.width + x) * s_.channels, s_.channels, to);
            }
          }
        }
      }
    });
  }

  void multiply(const KernelArgs& args, const float* x, const float* panels, const Range& rows, const Range& outputs,
                float* sums) const {
    const auto* bias = args.inputs.size() > 2 ? static_cast<const float*>(args.inputs[2]) : nullptr;
    for (std::int64_t i = 0; bias != nullptr && i < rows.size(); ++i) {
      std::copy_n(bias + outputs.begin, outputs.size(), sums + i * outputs.size());
    }
    const GemmShape gemm{.m = rows.size(),
                         .n = outputs.size(),
                         .k = depth_,
                         .a_row = depth_,
                         .a_column = 1,
                         .b_row = width_,
                         .c_row = outputs.size(),
                         .b_panel = panel_floats()};
    gemm_rows(gemm, x + rows.begin * depth_, panels + outputs.begin * depth_, sums, {.adds = bias != nullptr});
  }

  // Pixels become planes again, image by image.
  void write(const KernelArgs& args, const Range& rows, const Range& outputs, const float* sums) const {
    const std::optional<Epilogue> whole = finish_.epilogue(args);
    for (std::int64_t row = rows.begin; row < rows.end;) {
      const std::int64_t pixel = row % pixels_, count = std::min(pixels_ - pixel, rows.end - row);
      const std::int64_t place = (row / pixels_ * s_.outputs + outputs.begin) * pixels_ + pixel;
      const Epilogue part = whole ? whole->from(outputs.begin, place) : Epilogue{};
      const BlockedImages blocked{.images = 1,
                                  .channels = outputs.size(),
                                  .pixels = count,
                                  .block = outputs.size(),
                                  .pixel_step = outputs.size(),
                                  .plane_step = pixels_};
      unblock_images(blocked, sums + (row - rows.begin) * outputs.size(), static_cast<float*>(args.outputs[0]) + place,
                     whole ? &part : nullptr);
      row += count;
    }
  }

  ConvShape s_;
  ConvFinish finish_;
  std::int64_t width_, taps_, depth_;
  std::int64_t plane_, pixels_, rows_;  // pixels of an image of x, of one of y, of all of y
  bool sees_all_;                       // a pixel of y sees its own pixel of x
  Chunks packing_, turning_, seeing_;   // panels, blocks of channels, rows
  ProductBlocks blocks_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace

bool fills_panels(std::int64_t outputs) { return outputs % kWholeVectors == 0; }

std::unique_ptr<Kernel> make_panel_conv(const ConvShape& shape, const ConvFinish& finish) {
  return std::make_unique<PanelConv>(shape, finish);
}

}  // namespace aspen
