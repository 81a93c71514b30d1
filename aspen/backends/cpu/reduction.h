// How a reduction over any axes falls apart into loops a vector unit likes. Adjacent axes that are both kept or both
// reduced merge; then the innermost axis is either
//   reduced ("rows"):    every output takes one or more contiguous rows;
//   kept    ("columns"): a contiguous row of outputs takes rows of the same length, element by element.
// ReductionParts cuts the outputs for several threads. Called by the kernels of reduce and normalize; the order of
// additions depends on the shape alone.
#pragma once

#include <algorithm>
#include <vector>

#include "aspen/backends/cpu/chunks.h"

namespace aspen {

class ReductionPlan {
 public:
  ReductionPlan(const Shape& shape, const std::vector<std::int64_t>& axes) {
    std::vector<std::int64_t> strides = contiguous_strides(shape);
    Shape kept, reduced;
    std::array<std::vector<std::int64_t>, 1> kept_strides, reduced_strides;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(shape.size()); ++i) {
      bool is_reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
      (is_reduced ? reduced : kept).push_back(shape[i]);
      (is_reduced ? reduced_strides : kept_strides)[0].push_back(strides[i]);
    }
    kept_ = StridedRows<1>(kept, kept_strides);
    reduced_ = StridedRows<1>(reduced, reduced_strides);
  }

  // True: rows; false: columns.
  bool by_rows() const { return reduced_.row_size() == 1 ? !by_columns() : reduced_.strides()[0] == 1; }
  std::int64_t outputs() const { return kept_.size(); }
  std::int64_t reduced() const { return reduced_.size(); }  // elements per output
  std::int64_t row_size() const { return by_rows() ? reduced_.row_size() : kept_.row_size(); }

  std::int64_t output_rows() const { return kept_.num_rows(); }  // by columns
  // By rows: whether output i takes row i of one matrix, and nothing else.
  bool is_matrix() const {
    return by_rows() && reduced_.num_rows() == 1 && kept_.num_rows() == 1 && kept_.strides()[0] == row_size();
  }

  // By rows: f(output, offset) for the outputs begin, ..., end - 1; then for_each_row_of(offset, f(row offset)) for the
  // rows of one.
  template <class F>
  void for_each_output(std::int64_t begin, std::int64_t end, F&& f) const {
    kept_.for_each_element_in(begin, end, [&](std::int64_t output, const auto& offsets) { f(output, offsets[0]); });
  }
  template <class F>
  void for_each_row_of(std::int64_t offset, F&& f) const {
    reduced_.for_each_row([&](std::int64_t, const auto& offsets) { f(offset + offsets[0]); });
  }

  // By columns: f(first output, offset) for the rows of outputs begin, ..., end - 1; then for_each_run_of(offset,
  // f(row offset, count, step)) for the rows that fall on one, `count` of them `step` apart at a time.
  template <class F>
  void for_each_output_row(std::int64_t begin, std::int64_t end, F&& f) const {
    kept_.for_each_row_in(begin, end, [&](std::int64_t first, const auto& offsets) { f(first, offsets[0]); });
  }
  template <class F>
  void for_each_run_of(std::int64_t offset, F&& f) const {
    reduced_.for_each_row(
        [&](std::int64_t, const auto& offsets) { f(offset + offsets[0], reduced_.row_size(), reduced_.strides()[0]); });
  }

 private:
  bool by_columns() const { return kept_.row_size() > 1 && kept_.strides()[0] == 1; }

  StridedRows<1> kept_, reduced_;
};

// What one thread computes of a reduction: outputs begin, ..., end - 1 (by rows), or in as many rows of outputs the
// given columns (by columns). Every output is computed whole, so cutting does not change its sum.
struct ReductionPart {
  std::int64_t begin = 0, end = 0;
  std::int64_t column = 0, num_columns = 0;
  std::int64_t scratch = 0;  // by columns: where the part may keep num_columns numbers of its own
};

class ReductionParts {
 public:
  // `cost` in nanoseconds per element. Narrow pieces of long rows are read slower than whole rows, the more so the
  // more often they are read: least_columns bounds that.
  ReductionParts(const ReductionPlan& plan, double cost, std::int64_t least_columns)
      : rows_(plan.output_rows()), columns_(plan.row_size()) {
    double total = cost * static_cast<double>(plan.outputs() * plan.reduced());
    cuts_columns_ = !plan.by_rows() && rows_ < 2 * worthwhile_parts(total);
    chunks_ = cuts_columns_ ? cut(columns_, total, {.multiple = 64, .least = least_columns})
                            : cut(plan.by_rows() ? plan.outputs() : rows_, total);
  }

  std::int64_t scratch_size() const { return cuts_columns_ ? columns_ : columns_ * chunks_.count(); }

  template <class F>
  void for_each(const KernelArgs& args, F&& compute) const {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      compute(cuts_columns_ ? ReductionPart{0, rows_, chunk.begin, chunk.size(), chunk.begin}
                            : ReductionPart{chunk.begin, chunk.end, 0, columns_, chunk.index * columns_});
    });
  }

 private:
  std::int64_t rows_, columns_;
  bool cuts_columns_ = false;
  Chunks chunks_;
};

}  // namespace aspen
