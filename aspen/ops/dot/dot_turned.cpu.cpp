#include "aspen/ops/dot/dot_turned.cpu.h"

#include <algorithm>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/gemm.h"
#include "aspen/backends/cpu/product_blocks.h"
#include "aspen/backends/cpu/slots.h"

namespace aspen {
namespace {

// With so few rows that a stays in a core's cache: a panel is multiplied as soon as it is turned, and never leaves it.
class PanelDot final : public Kernel {
 public:
  explicit PanelDot(const DotShape& s)
      : s_(s), width_(gemm_panel_width()), panels_((s.n + width_ - 1) / width_),
        chunks_(cut(s.batch * panels_, kMultiplyAddCost * static_cast<double>(s.products()))),
        gemm_{s.m, width_, s.k, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1, width_, s.n} {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(chunks_.count() * panel_floats()) * sizeof(float);
  }

  void run(const KernelArgs& args) const override {
    const auto *a = static_cast<const float*>(args.inputs[0]), *b = static_cast<const float*>(args.inputs[1]);
    auto* c = static_cast<float*>(args.outputs[0]);
    Slots slots;
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      const Slots::Held slot(slots);
      float* panel = static_cast<float*>(args.workspace) + static_cast<std::int64_t>(slot.index()) * panel_floats();
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
        const std::int64_t product = i / panels_, column = i % panels_ * width_;
        GemmShape gemm = gemm_;
        gemm.n = std::min(width_, s_.n - column);
        turn_into_panels({.n = gemm.n, .k = s_.k, .b_row = s_.k}, b + (product * s_.n + column) * s_.k, panel);
        gemm_rows(gemm, a + product * s_.m * s_.k, panel, c + product * s_.m * s_.n + column);
      }
    });
  }

 private:
  std::int64_t panel_floats() const { return width_ * s_.k; }

  DotShape s_;
  std::int64_t width_, panels_;
  Chunks chunks_;
  GemmShape gemm_;
};

class TurnedDot final : public Kernel {
 public:
  explicit TurnedDot(const DotShape& s)
      : s_(s), width_(gemm_panel_width()), panels_((s.n + width_ - 1) / width_),
        turning_(cut(s.batch * panels_, kMoveCost * static_cast<double>(s.batch * s.n * s.k))),
        blocks_(s.batch, s.m, s.n, kMultiplyAddCost * static_cast<double>(s.products()), kRowsGrain, kMostChunks),
        gemm_{s.m, s.n, s.k, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1, width_, s.n, s.k * width_} {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(s_.batch * product_floats()) * sizeof(float);
  }

  void run(const KernelArgs& args) const override {
    const auto* a = static_cast<const float*>(args.inputs[0]);
    auto *c = static_cast<float*>(args.outputs[0]), *panels = static_cast<float*>(args.workspace);
    turn(args, static_cast<const float*>(args.inputs[1]), panels);
    blocks_.for_each(args, [&](std::int64_t product, const Range& rows, const Range& columns) {
      GemmShape gemm = gemm_;
      gemm.m = rows.size();
      gemm.n = columns.size();
      gemm_rows(gemm, a + product * s_.m * s_.k + rows.begin * gemm.a_row,
                panels + product * product_floats() + columns.begin * s_.k,
                c + (product * s_.m + rows.begin) * s_.n + columns.begin);
    });
  }

 private:
  std::int64_t product_floats() const { return panels_ * width_ * s_.k; }

  void turn(const KernelArgs& args, const float* b, float* panels) const {
    for_each_chunk(args, turning_, [&](const Chunk& chunk) {
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
        const std::int64_t column = i % panels_ * width_;
        const GemmShape panel{.n = std::min(width_, s_.n - column), .k = s_.k, .b_row = s_.k};
        turn_into_panels(panel, b + (i / panels_ * s_.n + column) * s_.k, panels + i * s_.k * width_);
      }
    });
  }

  DotShape s_;
  std::int64_t width_, panels_;
  Chunks turning_;
  ProductBlocks blocks_;
  GemmShape gemm_;
};

// With a stored k x m: read as it lies, every summand of a row would come from another line of the cache, and often
// from lines that drive each other out of it.
class TurnedRowsDot final : public Kernel {
 public:
  explicit TurnedRowsDot(const DotShape& s)
      : s_(s), turning_(cut(s.m, kMoveCost * static_cast<double>(s.m * s.k), {.multiple = 64, .least = 64})),
        blocks_(1, s.m, s.n, kMultiplyAddCost * static_cast<double>(s.products()), kRowsGrain, kMostChunks),
        gemm_{s.m, s.n, s.k, s.k, 1, s.n, s.n} {}

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(s_.m * s_.k) * sizeof(float); }

  void run(const KernelArgs& args) const override {
    auto *a = static_cast<const float*>(args.inputs[0]), *b = static_cast<const float*>(args.inputs[1]);
    auto *c = static_cast<float*>(args.outputs[0]), *rows_of_a = static_cast<float*>(args.workspace);
    for_each_chunk(args, turning_, [&](const Chunk& chunk) {
      turn_into_rows({.m = chunk.size(), .k = s_.k, .a_column = s_.m}, a + chunk.begin, rows_of_a + chunk.begin * s_.k);
    });
    blocks_.for_each(args, [&](std::int64_t, const Range& rows, const Range& columns) {
      GemmShape gemm = gemm_;
      gemm.m = rows.size();
      gemm.n = columns.size();
      gemm_rows(gemm, rows_of_a + rows.begin * s_.k, b + columns.begin, c + rows.begin * s_.n + columns.begin);
    });
  }

 private:
  DotShape s_;
  Chunks turning_;
  ProductBlocks blocks_;
  GemmShape gemm_;
};

}  // namespace

bool is_turned_by_panels(const DotShape& shape) {
  constexpr std::int64_t kCached = 1 << 18;  // floats
  return shape.transpose_b && shape.m * shape.k <= kCached;
}

std::unique_ptr<Kernel> make_turned_dot(const DotShape& shape) {
  if (!shape.transpose_b) return std::make_unique<TurnedRowsDot>(shape);
  if (is_turned_by_panels(shape)) return std::make_unique<PanelDot>(shape);
  return std::make_unique<TurnedDot>(shape);
}

}  // namespace aspen
