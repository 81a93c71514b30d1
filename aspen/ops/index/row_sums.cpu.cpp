#include "aspen/ops/index/row_sums.cpu.h"

#include <algorithm>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/ops/index/check_index.h"

namespace aspen {
namespace {

class RowSums final : public GradientPieces {
 public:
  RowSums(const Shape& table, const Shape& index)
      : index_shape_(index), count_(numel(index)), rows_(table[0]),
        columns_(numel(table) / std::max<std::int64_t>(rows_, 1)),
        piece_rows_(std::clamp<std::int64_t>(kFloats / std::max<std::int64_t>(columns_, 1), 1,
                                             std::max<std::int64_t>(rows_, 1))),
        pieces_((rows_ + piece_rows_ - 1) / piece_rows_),
        chunks_(cut(pieces_, kMoveCost * static_cast<double>(rows_ * columns_),
                    {.least = std::max<std::int64_t>((pieces_ + kFewChunks - 1) / kFewChunks, 1)})) {}

  std::size_t workspace_bytes() const override {
    return padded(pieces_ + 1 + count_) + static_cast<std::size_t>(chunks_.count()) * padded(piece_rows_ * columns_);
  }

  void run(const KernelArgs& args, const Take& take) const override {
    const auto* index = static_cast<const std::int32_t*>(args.inputs[0]);
    const auto* rows = static_cast<const float*>(args.inputs[1]);
    auto* memory = static_cast<std::byte*>(args.workspace);
    auto *ends = reinterpret_cast<std::int32_t*>(memory), *order = ends + pieces_ + 1;
    sort(index, ends, order);
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      auto* sums = reinterpret_cast<float*>(memory + padded(pieces_ + 1 + count_) +
                                            static_cast<std::size_t>(slot_of(args)) * padded(piece_rows_ * columns_));
      std::fill_n(sums, piece_rows_ * columns_, 0.0f);
      for (std::int64_t piece = chunk.begin; piece < chunk.end; ++piece) {
        const std::int64_t first = piece * piece_rows_, count = std::min(piece_rows_, rows_ - first);
        const std::int32_t *begin = order + ends[piece], *end = order + ends[piece + 1];
        const auto sum_of = [&](std::int32_t i) { return sums + (index[i] - first) * columns_; };
        for (const std::int32_t* i = begin; i < end; ++i) add(rows + *i * columns_, sum_of(*i));
        take({first * columns_, count * columns_, sums});
        for (const std::int32_t* i = begin; i < end; ++i) std::fill_n(sum_of(*i), columns_, 0.0f);
      }
    });
  }

 private:
  static constexpr std::int64_t kFloats = 4096;  // of a piece: a part of the first cache level

  static std::size_t padded(std::int64_t count) { return static_cast<std::size_t>((count + 15) / 16 * 64); }

  // Which rows belong to each piece, in their order: those from ends[piece] to ends[piece + 1].
  void sort(const std::int32_t* index, std::int32_t* ends, std::int32_t* order) const {
    std::fill_n(ends, pieces_ + 1, 0);
    for (std::int64_t i = 0; i < count_; ++i) {
      ++ends[checked_index(index[i], rows_, "scatter_rows", i, index_shape_) / piece_rows_];
    }
    std::int32_t sum = 0;
    for (std::int64_t piece = 0; piece <= pieces_; ++piece) ends[piece] = sum += ends[piece];
    for (std::int64_t i = count_; i-- > 0;) order[--ends[index[i] / piece_rows_]] = static_cast<std::int32_t>(i);
  }

  void add(const float* row, float* sum) const {
    for (std::int64_t i = 0; i < columns_; ++i) sum[i] += row[i];
  }

  Shape index_shape_;
  std::int64_t count_, rows_, columns_;
  std::int64_t piece_rows_, pieces_;
  Chunks chunks_;
};

}  // namespace

std::unique_ptr<GradientPieces> make_row_sums(const Shape& table, const Shape& index) {
  return std::make_unique<RowSums>(table, index);
}

}  // namespace aspen
