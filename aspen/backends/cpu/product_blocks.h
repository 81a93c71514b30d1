// How products of matrices are dealt out to threads: in blocks of rows and columns of each result. Called by the
// kernels of dot and of convolutions that are products.
#pragma once

#include <algorithm>
#include <cstdint>

#include "aspen/backends/cpu/chunks.h"

namespace aspen {

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// The least that a block of a result may be, which its size is a multiple of.
struct BlockGrain {
  std::int64_t rows, columns;
};
inline constexpr BlockGrain kRowsGrain{48, 64};     // of gemm_rows
inline constexpr BlockGrain kColumnsGrain{16, 24};  // of gemm_columns

// Blocks of nearly equal size; results stay whole where there are as many products as parts.
class ProductBlocks {
 public:
  ProductBlocks() = default;
  ProductBlocks(std::int64_t products, std::int64_t rows, std::int64_t columns, double cost, BlockGrain grain,
                std::int64_t most = kFewChunks) {
    std::int64_t parts = worthwhile_parts(cost, most), each = (parts + products - 1) / products;
    columns_ = {columns, grain.columns, std::clamp(columns / grain.columns, std::int64_t{1}, each)};
    rows_ = {rows, grain.rows,
             std::clamp(rows / grain.rows, std::int64_t{1}, (each + columns_.count() - 1) / columns_.count())};
    chunks_ = cut(products * columns_.count() * rows_.count(), cost);
  }

  std::int64_t num_chunks() const { return chunks_.count(); }  // that run at the same time
  std::int64_t most_floats() const { return rows_.longest() * columns_.longest(); }

  // Calls work(product, rows, columns) for every block.
  template <class F>
  void for_each(const KernelArgs& args, F&& work) const {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
        std::int64_t product = i / (rows_.count() * columns_.count()), block = i % (rows_.count() * columns_.count());
        work(product, rows_[block % rows_.count()], columns_[block / rows_.count()]);
      }
    });
  }

 private:
  // Parts of an axis, of so many whole grains each that none is more than a grain longer than another.
  class Parts {
   public:
    Parts() = default;
    Parts(std::int64_t size, std::int64_t grain, std::int64_t count)
        : size_(size), grain_(grain), count_(count), grains_(std::max(size / grain, count)) {}

    std::int64_t count() const { return count_; }
    Range operator[](std::int64_t i) const { return {border(i), border(i + 1)}; }
    std::int64_t longest() const {
      std::int64_t longest = 0;
      for (std::int64_t i = 0; i < count_; ++i) longest = std::max(longest, (*this)[i].size());
      return longest;
    }

   private:
    std::int64_t border(std::int64_t i) const { return i == count_ ? size_ : i * grains_ / count_ * grain_; }

    std::int64_t size_ = 0, grain_ = 1, count_ = 0, grains_ = 0;
  };

  Parts rows_, columns_;
  Chunks chunks_;
};

}  // namespace aspen
