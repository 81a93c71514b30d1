// The memory of a data loader's items: elements are written into it row by row, by several workers at once, and it is
// used again when nobody holds a tensor of it any more.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace poptorch {

using Tensors = std::vector<at::Tensor>;

class ItemBuffers {
 public:
  explicit ItemBuffers(std::int64_t rows_per_item) : rows_per_item_(rows_per_item) {}

  // The first element decides how all of them look: later ones take its types and must have its shapes. Called before
  // several workers write.
  bool has_layout() const { return !layout_.empty(); }
  void set_layout(const Tensors& element);
  void set_layout_of_rows(const Tensors& batch);

  // Gives an item its memory, unless another worker has done so.
  void provide(Tensors& item, std::int64_t rows);
  void write_row(const Tensors& item, std::int64_t row, const Tensors& element) const;
  void write_rows(const Tensors& item, std::int64_t row, const Tensors& batch) const;
  // A batch that is an item as it is: checked, and converted where its types are others.
  Tensors conforming(Tensors batch) const;

  // Keeps the memory of an item for another one if the caller was the last to hold it.
  void give_back(Tensors item);

 private:
  struct Part {
    std::vector<std::int64_t> row_shape;
    at::ScalarType type;
  };
  void check_count(const Tensors& tensors) const;
  void check_shape(std::size_t part, at::IntArrayRef row_shape) const;

  std::int64_t rows_per_item_;
  std::vector<Part> layout_;
  std::mutex mutex_;
  std::vector<Tensors> free_;
};

}  // namespace poptorch
