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

// Equal blocks; results stay whole where there are as many products as parts.
class ProductBlocks {
 public:
  ProductBlocks() = default;
  ProductBlocks(std::int64_t products, std::int64_t rows, std::int64_t columns, double cost, BlockGrain grain,
                std::int64_t most = kFewChunks)
      : rows_(rows), columns_(columns) {
    std::int64_t parts = worthwhile_parts(cost, most), each = (parts + products - 1) / products;
    std::int64_t column_parts = std::clamp(columns / grain.columns, std::int64_t{1}, each);
    std::int64_t row_parts = std::clamp(rows / grain.rows, std::int64_t{1}, (each + column_parts - 1) / column_parts);
    block_columns_ = rounded((columns + column_parts - 1) / column_parts, grain.columns);
    block_rows_ = rounded((rows + row_parts - 1) / row_parts, grain.rows);
    column_blocks_ = (columns + block_columns_ - 1) / block_columns_;
    row_blocks_ = (rows + block_rows_ - 1) / block_rows_;
    chunks_ = cut(products * column_blocks_ * row_blocks_, cost);
  }

  std::int64_t num_chunks() const { return chunks_.count(); }  // that run at the same time
  std::int64_t most_floats() const { return std::min(block_rows_, rows_) * std::min(block_columns_, columns_); }

  // Calls work(product, rows, columns) for every block.
  template <class F>
  void for_each(const KernelArgs& args, F&& work) const {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
        std::int64_t product = i / (row_blocks_ * column_blocks_), block = i % (row_blocks_ * column_blocks_);
        std::int64_t row = block % row_blocks_ * block_rows_, column = block / row_blocks_ * block_columns_;
        work(product, Range{row, std::min(rows_, row + block_rows_)},
             Range{column, std::min(columns_, column + block_columns_)});
      }
    });
  }

 private:
  static std::int64_t rounded(std::int64_t n, std::int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
  }

  std::int64_t rows_ = 0, columns_ = 0;
  std::int64_t block_rows_ = 1, block_columns_ = 1, row_blocks_ = 0, column_blocks_ = 0;
  Chunks chunks_;
};

}  // namespace aspen
