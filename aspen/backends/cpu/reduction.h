// How a reduction over any axes falls apart into loops a vector unit likes. Adjacent axes that are both kept or both
// reduced merge; then the innermost axis is either
//   reduced ("rows"):    every output takes one or more contiguous rows;
//   kept    ("columns"): a contiguous row of outputs takes rows of the same length, element by element.
// Called by the kernels of reduce and normalize; the order of additions depends on the shape alone.
#pragma once

#include <algorithm>
#include <vector>

#include "aspen/backends/api/strided_rows.h"

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

  // By rows: f(output, offset) for each output; then for_each_row_of(offset, f(row offset)) for its rows.
  template <class F>
  void for_each_output(F&& f) const {
    kept_.for_each_row([&](std::int64_t first, const auto& offsets) {
      for (std::int64_t i = 0; i < kept_.row_size(); ++i) f(first + i, offsets[0] + i * kept_.strides()[0]);
    });
  }
  template <class F>
  void for_each_row_of(std::int64_t offset, F&& f) const {
    reduced_.for_each_row([&](std::int64_t, const auto& offsets) { f(offset + offsets[0]); });
  }

  // By columns: f(first output, offset) for each row of outputs; then for_each_element_of(offset, f(row offset)) for
  // the rows that fall on it, `count` of them `step` apart at a time.
  template <class F>
  void for_each_output_row(F&& f) const {
    kept_.for_each_row([&](std::int64_t first, const auto& offsets) { f(first, offsets[0]); });
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

}  // namespace aspen
