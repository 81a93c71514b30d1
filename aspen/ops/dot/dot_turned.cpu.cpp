#include "aspen/ops/dot/dot_turned.cpu.h"

#include <algorithm>
#include <optional>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/gemm.h"
#include "aspen/backends/cpu/product_blocks.h"

namespace aspen {
namespace {

// b stored n x k, as panels of columns: those of a product follow each other.
class TurnedPanels {
 public:
  explicit TurnedPanels(const DotShape& s)
      : n_(s.n), k_(s.k), width_(gemm_panel_width()), panels_((s.n + width_ - 1) / width_), count_(s.batch * panels_),
        turning_(cut(count_, kMoveCost * static_cast<double>(s.batch * s.n * s.k))) {}

  std::int64_t width() const { return width_; }
  std::int64_t count() const { return count_; }  // of all products
  std::int64_t product_of(std::int64_t panel) const { return panel / panels_; }
  std::int64_t first_column_of(std::int64_t panel) const { return panel % panels_ * width_; }
  std::int64_t columns_of(std::int64_t panel) const { return std::min(width_, n_ - first_column_of(panel)); }
  std::int64_t floats() const { return width_ * k_; }  // of one
  std::int64_t product_floats() const { return panels_ * floats(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count_ * floats()) * sizeof(float); }

  void turn(const float* b, std::int64_t panel, float* to) const {
    turn_into_panels({.n = columns_of(panel), .k = k_, .b_row = k_},
                     b + (product_of(panel) * n_ + first_column_of(panel)) * k_, to);
  }
  void turn_all(const KernelArgs& args, float* to) const {
    const auto* b = static_cast<const float*>(args.inputs[1]);
    for_each_chunk(args, turning_, [&](const Chunk& chunk) {
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) turn(b, i, to + i * floats());
    });
  }

 private:
  std::int64_t n_, k_, width_, panels_, count_;
  Chunks turning_;
};

// With so few rows that a stays in a core's cache: a panel is multiplied as soon as it is turned, and never leaves it.
class PanelDot final : public Kernel {
 public:
  explicit PanelDot(const DotShape& s)
      : s_(s), panels_(s), chunks_(cut(panels_.count(), kMultiplyAddCost * static_cast<double>(s.products()))),
        gemm_{s.m, 0, s.k, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1, panels_.width(), s.n} {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(chunks_.count() * panels_.floats()) * sizeof(float);
  }
  std::size_t packed_bytes() const override { return panels_.bytes(); }
  void pack(const KernelArgs& args, void* packed) const override {
    panels_.turn_all(args, static_cast<float*>(packed));
  }

  void run(const KernelArgs& args) const override {
    const auto *a = static_cast<const float*>(args.inputs[0]), *b = static_cast<const float*>(args.inputs[1]);
    const auto* packed = static_cast<const float*>(args.packed);
    auto* c = static_cast<float*>(args.outputs[0]);
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      float* turned = static_cast<float*>(args.workspace) + slot_of(args) * panels_.floats();
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
        if (packed == nullptr) panels_.turn(b, i, turned);
        GemmShape gemm = gemm_;
        gemm.n = panels_.columns_of(i);
        const std::int64_t product = panels_.product_of(i);
        gemm_rows(gemm, a + product * s_.m * s_.k, packed == nullptr ? turned : packed + i * panels_.floats(),
                  c + product * s_.m * s_.n + panels_.first_column_of(i));
      }
    });
  }

 private:
  DotShape s_;
  TurnedPanels panels_;
  Chunks chunks_;
  GemmShape gemm_;
};

class TurnedDot final : public Kernel {
 public:
  explicit TurnedDot(const DotShape& s)
      : s_(s), panels_(s),
        blocks_(s.batch, s.m, s.n, kMultiplyAddCost * static_cast<double>(s.products()), kRowsGrain, kMostChunks),
        gemm_{s.m, s.n, s.k, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1, panels_.width(), s.n, panels_.floats()} {
  }

  std::size_t workspace_bytes() const override { return panels_.bytes(); }
  std::size_t packed_bytes() const override { return panels_.bytes(); }
  void pack(const KernelArgs& args, void* packed) const override {
    panels_.turn_all(args, static_cast<float*>(packed));
  }

  void run(const KernelArgs& args) const override {
    const auto* a = static_cast<const float*>(args.inputs[0]);
    auto* c = static_cast<float*>(args.outputs[0]);
    if (args.packed == nullptr) pack(args, args.workspace);
    const auto* panels = static_cast<const float*>(args.packed == nullptr ? args.workspace : args.packed);
    blocks_.for_each(args, [&](std::int64_t product, const Range& rows, const Range& columns) {
      GemmShape gemm = gemm_;
      gemm.m = rows.size();
      gemm.n = columns.size();
      gemm_rows(gemm, a + product * s_.m * s_.k + rows.begin * gemm.a_row,
                panels + product * panels_.product_floats() + columns.begin * s_.k,
                c + (product * s_.m + rows.begin) * s_.n + columns.begin);
    });
  }

 private:
  DotShape s_;
  TurnedPanels panels_;
  ProductBlocks blocks_;
  GemmShape gemm_;
};

// Of a single product with a stored k x m and b as it is multiplied: what gemm_rows reads fastest. Rows of k of a: as
// it lies, every summand of a row would come from another line of the cache, and often from lines that drive each other
// out of it. Panels of b, whose rows may lie so, too, if they fit the first cache level at all; but not where gemm_rows
// then would sum the last columns otherwise.
class TurnedOperands {
 public:
  explicit TurnedOperands(const DotShape& s)
      : s_(s), width_(gemm_panel_width()), has_panels_(s.n % kMostLanes == 0 && s.k <= kMostDepth),
        turning_(cut(s.m, kMoveCost * static_cast<double>(s.m * s.k), {.multiple = 64, .least = 64})),
        moving_(cut((s.n + width_ - 1) / width_, kMoveCost * static_cast<double>(s.n * s.k))) {}

  std::size_t bytes() const {
    return static_cast<std::size_t>(s_.m * s_.k + (has_panels_ ? moving_.items() * width_ * s_.k : 0)) * sizeof(float);
  }

  GemmShape gemm() const {
    if (!has_panels_) return {s_.m, s_.n, s_.k, s_.k, 1, s_.n, s_.n};
    return {s_.m, s_.n, s_.k, s_.k, 1, width_, s_.n, width_ * s_.k};
  }

  void make(const KernelArgs& args, float* memory) const {
    const auto *a = static_cast<const float*>(args.inputs[0]), *b = static_cast<const float*>(args.inputs[1]);
    for_each_chunk(args, turning_, [&](const Chunk& chunk) {
      turn_into_rows({.m = chunk.size(), .k = s_.k, .a_column = s_.m, .c_row = s_.k}, a + chunk.begin,
                     memory + chunk.begin * s_.k);
    });
    if (!has_panels_) return;
    for_each_chunk(args, moving_, [&](const Chunk& chunk) {
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
        const std::int64_t column = i * width_, count = std::min(width_, s_.n - column);
        float* panel = memory + s_.m * s_.k + column * s_.k;
        for (std::int64_t p = 0; p < s_.k; ++p) std::copy_n(b + p * s_.n + column, count, panel + p * width_);
      }
    });
  }

  const float* row(const float* memory, std::int64_t row) const { return memory + row * s_.k; }
  // The column begins a panel.
  const float* column(const KernelArgs& args, const float* memory, std::int64_t column) const {
    if (!has_panels_) return static_cast<const float*>(args.inputs[1]) + column;
    return memory + (s_.m + column) * s_.k;
  }

 private:
  static constexpr std::int64_t kMostLanes = 16, kMostDepth = 128;

  DotShape s_;
  std::int64_t width_;
  bool has_panels_;
  Chunks turning_, moving_;
};

ProductBlocks blocks_of_turned_rows(const DotShape& s) {
  return {1, s.m, s.n, kMultiplyAddCost * static_cast<double>(s.products()), kRowsGrain, kMostChunks};
}

class TurnedRowsDot final : public Kernel {
 public:
  explicit TurnedRowsDot(const DotShape& s) : n_(s.n), operands_(s), blocks_(blocks_of_turned_rows(s)) {}

  std::size_t workspace_bytes() const override { return operands_.bytes(); }

  void run(const KernelArgs& args) const override {
    auto *c = static_cast<float*>(args.outputs[0]), *memory = static_cast<float*>(args.workspace);
    operands_.make(args, memory);
    blocks_.for_each(args, [&](std::int64_t, const Range& rows, const Range& columns) {
      GemmShape gemm = operands_.gemm();
      gemm.m = rows.size();
      gemm.n = columns.size();
      gemm_rows(gemm, operands_.row(memory, rows.begin), operands_.column(args, memory, columns.begin),
                c + rows.begin * n_ + columns.begin);
    });
  }

 private:
  std::int64_t n_;
  TurnedOperands operands_;
  ProductBlocks blocks_;
};

// Blocks of the result that stay in a core's cache: of whole rows, or of parts of long ones.
class PiecesOfDot final : public GradientPieces {
 public:
  PiecesOfDot(const DotShape& s, bool turns)
      : s_(s), chunks_(cut(s.m, kMultiplyAddCost * static_cast<double>(s.products()),
                           {.multiple = 8, .least = (s.m + kFewChunks - 1) / kFewChunks})) {
    if (turns) operands_.emplace(s);
    columns_ = s.n <= kMostColumns ? s.n : kMostColumns / 2;
    rows_ = std::min(std::max<std::int64_t>(kFloats / columns_ / kRowGroup, 1) * kRowGroup, chunks_.size());
  }

  std::size_t workspace_bytes() const override {
    return operands_bytes() + static_cast<std::size_t>(chunks_.count()) * piece_bytes();
  }

  void run(const KernelArgs& args, const Take& take) const override {
    auto* memory = static_cast<std::byte*>(args.workspace);
    auto* operands = reinterpret_cast<float*>(memory);
    if (operands_) operands_->make(args, operands);
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      auto* piece =
          reinterpret_cast<float*>(memory + operands_bytes() + static_cast<std::size_t>(slot_of(args)) * piece_bytes());
      for (Range columns = columns_from(0); columns.size() > 0; columns = columns_from(columns.end)) {
        for (std::int64_t row = chunk.begin; row < chunk.end; row += rows_) {
          const Range rows{row, std::min(chunk.end, row + rows_)};
          multiply(args, operands, rows, columns, piece);
          hand_on(rows, columns, piece, take);
        }
      }
    });
  }

 private:
  // A block, what it is multiplied from and what it updates fit the second cache level. Groups of rows are whole blocks
  // of the loops.
  static constexpr std::int64_t kFloats = 1 << 15, kMostColumns = 2048, kRowGroup = 24;

  std::int64_t most_columns() const { return std::min(s_.n, columns_ + kRowsGrain.columns - 1); }
  static std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  std::size_t operands_bytes() const { return operands_ ? padded(operands_->bytes()) : 0; }
  std::size_t piece_bytes() const { return padded(static_cast<std::size_t>(rows_ * most_columns()) * sizeof(float)); }

  // Not a few columns by themselves, which gemm_rows would sum in another way than at the end of many.
  Range columns_from(std::int64_t begin) const {
    return {begin, s_.n - begin < columns_ + kRowsGrain.columns ? s_.n : begin + columns_};
  }

  void multiply(const KernelArgs& args, const float* operands, const Range& rows, const Range& columns,
                float* piece) const {
    GemmShape gemm = operands_ ? operands_->gemm() : GemmShape{s_.m, s_.n, s_.k, 1, s_.m, s_.n};
    gemm.m = rows.size();
    gemm.n = columns.size();
    gemm.c_row = columns.size();
    const auto *a = static_cast<const float*>(args.inputs[0]), *b = static_cast<const float*>(args.inputs[1]);
    if (operands_) {
      gemm_rows(gemm, operands_->row(operands, rows.begin), operands_->column(args, operands, columns.begin), piece);
    } else {
      gemm_rows(gemm, a + rows.begin, b + columns.begin, piece);
    }
  }

  void hand_on(const Range& rows, const Range& columns, const float* piece, const Take& take) const {
    if (columns.size() == s_.n) return take({rows.begin * s_.n, rows.size() * s_.n, piece});
    for (std::int64_t row = rows.begin; row < rows.end; ++row, piece += columns.size()) {
      take({row * s_.n + columns.begin, columns.size(), piece});
    }
  }

  DotShape s_;
  std::optional<TurnedOperands> operands_;  // nothing: read as they lie
  Chunks chunks_;                           // of rows
  std::int64_t rows_ = 0, columns_ = 0;     // of a block
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

std::unique_ptr<GradientPieces> make_pieces_of_dot(const DotShape& shape, bool turns) {
  return std::make_unique<PiecesOfDot>(shape, turns);
}

}  // namespace aspen
