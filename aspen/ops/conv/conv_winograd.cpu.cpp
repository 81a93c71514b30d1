#include "aspen/ops/conv/conv_winograd.cpu.h"

#include <algorithm>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/gemm.h"
#include "aspen/backends/cpu/onednn.h"
#include "aspen/ops/conv/conv_finish.cpu.h"

namespace aspen {
namespace {

// Rows of pixels, channels side by side, that a row of tiles reads: four, or two of a gradient.
struct WinogradRows {
  const float* row[4] = {};   // nullptr: zeros
  std::int64_t columns = 0;   // pixels of a row
  std::int64_t pad = 0;       // zeros before the first
  std::int64_t channels = 0;  // floats of a pixel, whole vectors
  const float* zeros = nullptr;
};

// The two rows of pixels that a row of tiles makes, one behind the other.
struct WinogradResult {
  float* first = nullptr;
  std::int64_t columns = 0, channels = 0;
  const float* bias = nullptr;
  bool has_second = true;
};

// Transformed weights as a factor of a product, rows x columns, in panels of columns, for each of 16 positions.
struct WinogradFactor {
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_step = 0, column_step = 0;  // floats from kernel to kernel
  bool is_turned = false;                      // kernels are read from the end
  std::int64_t panel = 0;                      // columns
  std::int64_t position = 0;                   // floats from one position to the next
};

// Gradients by transformed weights, (parts, positions, outputs, channels).
struct WinogradSums {
  std::int64_t channels = 0;
  std::int64_t position = 0, part = 0;  // floats from one to the next
  std::int64_t parts = 1;
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/conv/conv_winograd.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

constexpr std::int64_t kPositions = 16;
constexpr std::int64_t kTiles = 112;                // at a time: products of so many rows reach their full speed
constexpr std::int64_t kLine = 64 / sizeof(float);  // between positions, so that they do not share sets of the cache

std::int64_t whole_vectors(std::int64_t floats) {
  const std::int64_t lanes = ASPEN_BEST(winograd_lanes)();
  return (floats + lanes - 1) / lanes * lanes;
}

std::size_t bytes_of(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

// Rows of tiles, counted over all images.
struct TileRows {
  std::int64_t images = 0, per_image = 0;
  std::int64_t tiles = 0;  // of a row

  explicit TileRows(const ConvShape& s)
      : images(s.images), per_image((s.out_height + 1) / 2), tiles((s.out_width + 1) / 2) {}

  std::int64_t count() const { return images * per_image; }
  // So many rows are done at a time.
  std::int64_t block() const { return std::clamp<std::int64_t>(kTiles / tiles, 1, count()); }

  // Calls f(image, first, last, before) for the rows of each image among begin, ..., end - 1; `before`: tiles of the
  // range before them.
  template <class F>
  void for_each_image(std::int64_t begin, std::int64_t end, F&& f) const {
    for (std::int64_t row = begin; row < end;) {
      const std::int64_t image = row / per_image, first = row % per_image;
      const std::int64_t last = std::min(per_image, first + end - row);
      f(image, first, last, (row - begin) * tiles);
      row += last - first;
    }
  }

  // Calls f(begin, end) for blocks of a range.
  template <class F>
  void for_each_block(const Chunk& range, F&& f) const {
    for (std::int64_t row = range.begin; row < range.end; row += block()) f(row, std::min(range.end, row + block()));
  }
};

// Planes of one operand, read as pixels.
struct Planes {
  std::int64_t channels = 0, height = 0, width = 0;
  std::int64_t pad_y = 0, pad_x = 0;
  std::int64_t extent = 4;  // pixels of a tile along an axis

  std::int64_t pixel() const { return whole_vectors(channels); }
  // Floats that `rows` rows of tiles need while they are read.
  std::int64_t copy(std::int64_t rows) const { return std::min(2 * rows + 2, height) * width * pixel(); }

  // Transforms rows of tiles of an image.
  void read(const float* image, std::int64_t first, std::int64_t last, std::int64_t tiles, const float* zeros,
            float* copy, float* to, std::int64_t position) const {
    const std::int64_t top = std::clamp<std::int64_t>(2 * first - pad_y, 0, height);
    const std::int64_t bottom = std::clamp<std::int64_t>(2 * last + extent - 2 - pad_y, top, height);
    ASPEN_BEST(winograd_gather)
    (image + top * width, height * width, channels, (bottom - top) * width, copy, pixel());
    for (std::int64_t i = first; i < last; ++i, to += tiles * pixel()) {
      WinogradRows rows{.columns = width, .pad = pad_x, .channels = pixel(), .zeros = zeros};
      for (std::int64_t r = 0; r < extent; ++r) {
        const std::int64_t row = 2 * i + r - pad_y;
        if (row >= top && row < bottom) rows.row[r] = copy + (row - top) * width * pixel();
      }
      if (extent == 4) {
        ASPEN_BEST(winograd_read_pixels)(rows, tiles, to, position);
      } else {
        ASPEN_BEST(winograd_read_gradients)(rows, tiles, to, position);
      }
    }
  }
};

// -- forward, and the gradient by the input ---------------------------------------------------------------------------
// The gradient by the input is the convolution of g with the kernels turned around and their axes exchanged.
ConvShape turned(const ConvShape& s) {
  ConvShape t = s;
  std::swap(t.channels, t.outputs);
  std::swap(t.height, t.out_height);
  std::swap(t.width, t.out_width);
  t.pad_y = 2 - s.pad_y;
  t.pad_x = 2 - s.pad_x;
  return t;
}

WinogradFactor factor_of(ConvPass pass, const ConvShape& s) {
  WinogradFactor f{.rows = s.channels, .columns = s.outputs, .panel = gemm_panel_width()};
  f.is_turned = pass == ConvPass::kInputGrad;
  f.row_step = f.is_turned ? s.outputs * 9 : 9;
  f.column_step = f.is_turned ? 9 : s.channels * 9;
  f.position = (s.outputs + f.panel - 1) / f.panel * f.panel * s.channels + kLine;
  return f;
}

// Cuts work into parts whose workspaces do not take too much memory together.
Chunks cut_tile_rows(std::int64_t rows, std::int64_t least, double nanoseconds, std::int64_t part_floats) {
  constexpr std::int64_t kMostFloats = 12 << 20;
  const std::int64_t most = std::max<std::int64_t>(2, kMostFloats / part_floats);
  return cut(rows, nanoseconds, {.least = std::max(least, (rows + most - 1) / most)});
}

// Every sum runs over the channels in their order, wherever work is cut.
class WinogradConv final : public Kernel {
 public:
  WinogradConv(ConvPass pass, const ConvShape& shape, const ConvFinish& finish)
      : s_(pass == ConvPass::kInputGrad ? turned(shape) : shape), finish_(finish), rows_(s_),
        factor_(factor_of(pass, s_)), planes_{s_.channels, s_.height, s_.width, s_.pad_y, s_.pad_x} {
    const std::int64_t count = rows_.count();
    auto products = static_cast<double>(count * rows_.tiles * kPositions * s_.channels * s_.outputs);
    auto moves = static_cast<double>(count * rows_.tiles * kPositions * (s_.channels + s_.outputs));
    auto kernels = static_cast<double>(s_.channels * s_.outputs);
    const double nanoseconds = kMultiplyAddCost * products + kReadCost * moves;
    const std::int64_t least = (rows_.block() + 2) / 3;
    few_ = cut(count, nanoseconds, {.least = std::max(least, (count + kFewChunks - 1) / kFewChunks)});
    onednn::Workspace slot;
    plan_slot(slot, {Chunks(least, least), Chunks(s_.outputs, s_.outputs)});
    many_ = cut_tile_rows(count, least, nanoseconds, static_cast<std::int64_t>(slot.used() / sizeof(float)));
    slices_ = cut_outputs();
    kernels_ = cut(s_.channels, kPositions * kMoveCost * kernels);
    for (std::size_t threads = 1; threads <= kMostChunks; ++threads) {
      const Cut cut = cut_for(threads);
      slots_bytes_ = std::max(slots_bytes_, std::min(threads, static_cast<std::size_t>(cut.count())) * slot_bytes(cut));
    }
    onednn::Workspace count_bytes;
    plan(count_bytes);
    workspace_bytes_ = count_bytes.used();
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::size_t packed_bytes() const override { return bytes_of(kPositions * factor_.position); }
  void pack(const KernelArgs& args, void* packed) const override {
    for_each_chunk(args, kernels_, [&](const Chunk& chunk) {
      ASPEN_BEST(winograd_weights)
      (factor_, chunk.begin, chunk.end, static_cast<const float*>(args.inputs[1]), static_cast<float*>(packed));
    });
  }

  void run(const KernelArgs& args) const override {
    onednn::Workspace workspace(args.workspace);
    Memory memory = plan(workspace);
    std::fill_n(memory.zeros, whole_vectors(s_.channels), 0.0f);
    if (args.inputs.size() > 2 && args.inputs[2] != nullptr) {
      std::copy_n(static_cast<const float*>(args.inputs[2]), s_.outputs, memory.bias);
    } else {
      memory.bias = nullptr;
    }
    if (args.packed == nullptr) {
      pack(args, memory.own_factor);
      memory.factor = memory.own_factor;
    } else {
      memory.factor = static_cast<const float*>(args.packed);
    }
    const Cut cut = cut_for(args.step != nullptr && args.step->team != nullptr ? args.step->team->num_threads() : 1);
    for_each_chunk(args, Chunks(cut.count(), 1), [&](const Chunk& chunk) {
      onednn::Workspace own(memory.slots + static_cast<std::size_t>(slot_of(args)) * slot_bytes(cut));
      run_part(args, cut.rows[chunk.index / cut.slices.count()], cut.slices[chunk.index % cut.slices.count()], memory,
               plan_slot(own, cut));
    });
  }

 private:
  struct Memory {
    const float* factor = nullptr;
    float *own_factor = nullptr, *zeros = nullptr, *bias = nullptr;
    std::byte* slots = nullptr;
  };
  struct Slot {
    float *pixels, *sums;                       // (positions, tiles, channels)
    float *copy, *result;                       // (pixels, channels)
    std::int64_t pixel_position, sum_position;  // floats from one position to the next
  };
  // How work is dealt out: rows of tiles, and outputs.
  struct Cut {
    Chunks rows, slices;
    std::int64_t count() const { return rows.count() * slices.count(); }
  };

  // One part, few long ones, more of them, or, where rows are too few, slices of the outputs whose pixels are
  // transformed each for itself.
  Cut cut_for(std::size_t num_threads) const {
    const auto threads = static_cast<std::int64_t>(num_threads);
    const Chunks whole(s_.outputs, s_.outputs);
    if (threads == 1) return {Chunks(few_.items(), few_.items()), whole};
    if (threads <= few_.count()) return {few_, whole};
    return threads <= many_.count() || many_.count() >= kFewChunks ? Cut{many_, whole} : Cut{many_, slices_};
  }

  // Panels of outputs, so many that with each part of the rows there is a slot for every chunk.
  Chunks cut_outputs() const {
    const std::int64_t panels = (s_.outputs + factor_.panel - 1) / factor_.panel;
    const std::int64_t most = std::max<std::int64_t>(1, kMostChunks / std::max<std::int64_t>(1, many_.count()));
    return {s_.outputs, (panels + most - 1) / most * factor_.panel};
  }

  std::size_t slot_bytes(const Cut& cut) const {
    onednn::Workspace slot;
    plan_slot(slot, cut);
    return slot.used();
  }

  Memory plan(onednn::Workspace& workspace) const {
    Memory memory{};
    memory.own_factor = workspace.take<float>(bytes_of(kPositions * factor_.position));
    memory.zeros = workspace.take<float>(bytes_of(whole_vectors(s_.channels)));
    memory.bias = workspace.take<float>(bytes_of(whole_vectors(s_.outputs)));
    memory.slots = workspace.take<std::byte>(slots_bytes_);
    return memory;
  }

  Slot plan_slot(onednn::Workspace& workspace, const Cut& cut) const {
    const std::int64_t rows = std::min(rows_.block(), cut.rows.size()), outputs = whole_vectors(cut.slices.size());
    Slot slot{};
    slot.pixel_position = rows * rows_.tiles * planes_.pixel() + kLine;
    slot.sum_position = rows * rows_.tiles * outputs + kLine;
    slot.pixels = workspace.take<float>(bytes_of(kPositions * slot.pixel_position));
    slot.sums = workspace.take<float>(bytes_of(kPositions * slot.sum_position));
    slot.copy = workspace.take<float>(bytes_of(planes_.copy(rows)));
    slot.result = workspace.take<float>(bytes_of(2 * std::min(rows, rows_.per_image) * s_.out_width * outputs));
    return slot;
  }

  void run_part(const KernelArgs& args, const Chunk& part, const Chunk& outputs, const Memory& memory,
                const Slot& slot) const {
    rows_.for_each_block(part, [&](std::int64_t begin, std::int64_t end) {
      read(args, begin, end, memory, slot);
      multiply((end - begin) * rows_.tiles, outputs, memory, slot);
      write(args, begin, end, outputs, memory, slot);
    });
  }

  void read(const KernelArgs& args, std::int64_t begin, std::int64_t end, const Memory& memory,
            const Slot& slot) const {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    const std::int64_t image_size = s_.channels * s_.height * s_.width;
    rows_.for_each_image(begin, end, [&](auto image, auto first, auto last, auto before) {
      planes_.read(x + image * image_size, first, last, rows_.tiles, memory.zeros, slot.copy,
                   slot.pixels + before * planes_.pixel(), slot.pixel_position);
    });
  }

  void multiply(std::int64_t tiles, const Chunk& outputs, const Memory& memory, const Slot& slot) const {
    const std::int64_t columns = whole_vectors(outputs.size());
    const GemmShape gemm{.m = tiles,
                         .n = columns,
                         .k = s_.channels,
                         .a_row = planes_.pixel(),
                         .a_column = 1,
                         .b_row = factor_.panel,
                         .c_row = columns,
                         .b_panel = factor_.panel * s_.channels};
    const float* factor = memory.factor + outputs.begin * s_.channels;
    for (std::int64_t i = 0; i < kPositions; ++i) {
      gemm_rows(gemm, slot.pixels + i * slot.pixel_position, factor + i * factor_.position,
                slot.sums + i * slot.sum_position);
    }
  }

  void write(const KernelArgs& args, std::int64_t begin, std::int64_t end, const Chunk& outputs, const Memory& memory,
             const Slot& slot) const {
    const std::int64_t channels = whole_vectors(outputs.size()), plane = s_.out_height * s_.out_width;
    const std::optional<Epilogue> epilogue = finish_.epilogue(args);
    rows_.for_each_image(begin, end, [&](auto image, auto first, auto last, auto before) {
      const float* sums = slot.sums + before * channels;
      WinogradResult rows{slot.result, s_.out_width, channels, memory.bias};
      if (rows.bias != nullptr) rows.bias += outputs.begin;
      for (std::int64_t i = first; i < last; ++i, sums += rows_.tiles * channels) {
        rows.has_second = 2 * i + 1 < s_.out_height;
        ASPEN_BEST(winograd_write)(sums, slot.sum_position, rows_.tiles, rows);
        rows.first += 2 * s_.out_width * channels;
      }
      const std::int64_t top = 2 * first, bottom = std::min(s_.out_height, 2 * last);
      const std::int64_t place = (image * s_.outputs + outputs.begin) * plane + top * s_.out_width;
      const BlockedImages blocked{.images = 1,
                                  .channels = outputs.size(),
                                  .pixels = (bottom - top) * s_.out_width,
                                  .block = channels,
                                  .pixel_step = channels,
                                  .plane_step = plane};
      const Epilogue part = epilogue ? epilogue->from(outputs.begin, place) : Epilogue{};
      unblock_images(blocked, slot.result, static_cast<float*>(args.outputs[0]) + place, epilogue ? &part : nullptr);
    });
  }

  ConvShape s_;  // of the convolution that is computed
  ConvFinish finish_;
  TileRows rows_;
  WinogradFactor factor_;
  Planes planes_;
  Chunks few_, many_;  // rows of tiles
  Chunks slices_;      // outputs
  Chunks kernels_;
  std::size_t slots_bytes_ = 0, workspace_bytes_ = 0;
};

// -- gradient by the weights ------------------------------------------------------------------------------------------
// The sum of one per part, in their order. Where there are few parts, it is but one, all threads read its rows together
// and deal out its positions.
class WinogradWeightGrad final : public Kernel {
 public:
  explicit WinogradWeightGrad(const ConvShape& s)
      : s_(s),
        rows_(s), x_{s.channels, s.height, s.width, s.pad_y, s.pad_x}, g_{s.outputs, s.out_height, s.out_width, 0, 0,
                                                                          2} {
    const std::int64_t count = rows_.count();
    auto products = static_cast<double>(count * rows_.tiles * kPositions * s.channels * s.outputs);
    onednn::Workspace slot;
    plan_slot(slot);
    slot_bytes_ = slot.used();
    parts_ = cut_tile_rows(count, rows_.block(), kMultiplyAddCost * products,
                           kPositions * position() + static_cast<std::int64_t>(slot_bytes_ / sizeof(float)));
    if (parts_.count() < kLeastParts) {
      parts_ = Chunks(count, count);
      auto moves = static_cast<double>(rows_.block() * rows_.tiles * kPositions * (s.channels + s.outputs));
      readers_ = cut(rows_.block(), kMoveCost * moves);
      onednn::Workspace shared;
      plan_slot(shared);
      slot_bytes_ = shared.used();
    }
    kernels_ = cut(s.outputs, kPositions * kMoveCost * static_cast<double>(parts_.count() * position()));
    onednn::Workspace count_bytes;
    plan(count_bytes);
    workspace_bytes_ = count_bytes.used();
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const KernelArgs& args) const override {
    onednn::Workspace workspace(args.workspace);
    const Memory memory = plan(workspace);
    std::fill_n(memory.zeros, std::max(x_.pixel(), g_.pixel()), 0.0f);
    if (parts_.count() == 1) {
      add_up_together(args, memory);
    } else {
      for_each_chunk(args, Chunks(parts_.count(), 1), [&](const Chunk& chunk) {
        add_up(args, parts_[chunk.index], memory, memory.slots + static_cast<std::size_t>(slot_of(args)) * slot_bytes_);
      });
    }
    const WinogradSums sums{s_.channels, position(), kPositions * position(), parts_.count()};
    for_each_chunk(args, kernels_, [&](const Chunk& chunk) {
      for (std::int64_t output = chunk.begin; output < chunk.end; ++output) {
        ASPEN_BEST(winograd_weight_grad)
        (sums, memory.sums + output * x_.pixel(), static_cast<float*>(args.outputs[0]) + output * s_.channels * 9);
      }
    });
  }

 private:
  static constexpr std::int64_t kLeastParts = 4;

  struct RowRange {
    std::int64_t begin, end;
  };
  struct Memory {
    float *sums, *zeros;
    std::byte* slots;
  };
  struct Slot {
    float *pixels, *gradients;  // (positions, tiles, channels)
    float* copy;                // (pixels, channels)
  };

  std::int64_t position() const { return s_.outputs * x_.pixel() + kLine; }
  std::int64_t copy_of_reader() const {
    const std::int64_t rows = readers_.count() == 0 ? rows_.block() : readers_.size();
    return std::max(x_.copy(rows), g_.copy(rows));
  }
  std::int64_t position_of(const Planes& planes) const { return rows_.block() * rows_.tiles * planes.pixel() + kLine; }

  Memory plan(onednn::Workspace& workspace) const {
    Memory memory{};
    memory.sums = workspace.take<float>(bytes_of(parts_.count() * kPositions * position()));
    memory.zeros = workspace.take<float>(bytes_of(std::max(x_.pixel(), g_.pixel())));
    memory.slots = workspace.take<std::byte>(static_cast<std::size_t>(parts_.count()) * slot_bytes_);
    return memory;
  }

  Slot plan_slot(onednn::Workspace& workspace) const {
    Slot slot{};
    slot.pixels = workspace.take<float>(bytes_of(kPositions * position_of(x_)));
    slot.gradients = workspace.take<float>(bytes_of(kPositions * position_of(g_)));
    slot.copy = workspace.take<float>(bytes_of(std::max<std::int64_t>(1, 2 * readers_.count()) * copy_of_reader()));
    return slot;
  }

  void add_up(const KernelArgs& args, const Chunk& part, const Memory& memory, std::byte* at) const {
    onednn::Workspace workspace(at);
    const Slot slot = plan_slot(workspace);
    float* sums = memory.sums + part.index * kPositions * position();
    rows_.for_each_block(part, [&](std::int64_t begin, std::int64_t end) {
      read(x_, args.inputs[0], {begin, end}, memory, slot.copy, slot.pixels);
      read(g_, args.inputs[1], {begin, end}, memory, slot.copy, slot.gradients);
      for (std::int64_t i = 0; i < kPositions; ++i) {
        multiply(i, (end - begin) * rows_.tiles, slot, sums, begin > part.begin);
      }
    });
  }

  // The only part, which has a slot whose copy is as large as those of all readers.
  void add_up_together(const KernelArgs& args, const Memory& memory) const {
    onednn::Workspace workspace(memory.slots);
    const Slot slot = plan_slot(workspace);
    rows_.for_each_block(parts_[0], [&](std::int64_t begin, std::int64_t end) {
      for_each_chunk(args, Chunks(2 * readers_.count(), 1), [&](const Chunk& chunk) {
        const Chunk some = readers_[chunk.index / 2];
        const Planes& planes = chunk.index % 2 == 0 ? x_ : g_;
        const std::int64_t first = std::min(begin + some.begin, end), last = std::min(begin + some.end, end);
        read(planes, args.inputs[static_cast<std::size_t>(chunk.index % 2)], {first, last}, memory,
             slot.copy + chunk.index * copy_of_reader(),
             (chunk.index % 2 == 0 ? slot.pixels : slot.gradients) + some.begin * rows_.tiles * planes.pixel());
      });
      for_each_chunk(args, Chunks(kPositions, 1), [&](const Chunk& chunk) {
        multiply(chunk.index, (end - begin) * rows_.tiles, slot, memory.sums, begin > 0);
      });
    });
  }

  void multiply(std::int64_t i, std::int64_t tiles, const Slot& slot, float* sums, bool adds) const {
    const GemmShape gemm{.m = s_.outputs,
                         .n = x_.pixel(),
                         .k = tiles,
                         .a_row = 1,
                         .a_column = g_.pixel(),
                         .b_row = x_.pixel(),
                         .c_row = x_.pixel()};
    gemm_rows(gemm, slot.gradients + i * position_of(g_), slot.pixels + i * position_of(x_), sums + i * position(),
              {.adds = adds});
  }

  void read(const Planes& planes, const void* images, const RowRange& range, const Memory& memory, float* copy,
            float* to) const {
    const std::int64_t image_size = planes.channels * planes.height * planes.width;
    rows_.for_each_image(range.begin, range.end, [&](auto image, auto first, auto last, auto before) {
      planes.read(static_cast<const float*>(images) + image * image_size, first, last, rows_.tiles, memory.zeros, copy,
                  to + before * planes.pixel(), position_of(planes));
    });
  }

  ConvShape s_;
  TileRows rows_;
  Planes x_, g_;
  Chunks parts_, kernels_;
  Chunks readers_;  // rows of a block, of the only part
  std::size_t slot_bytes_ = 0, workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_winograd_conv(ConvPass pass, const ConvShape& shape, const ConvFinish& finish) {
  if (pass == ConvPass::kWeightGrad) return std::make_unique<WinogradWeightGrad>(shape);
  return std::make_unique<WinogradConv>(pass, shape, finish);
}

}  // namespace aspen
