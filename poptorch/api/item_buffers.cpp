#include "poptorch/api/item_buffers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "poptorch/error.h"

namespace poptorch {
namespace {

// Plain memory is copied here: torch would split a large copy among threads of its own.
void copy(const at::Tensor& to, const at::Tensor& from) {
  const bool is_plain = from.device().is_cpu() && from.layout() == at::kStrided && from.is_contiguous() &&
                        from.scalar_type() == to.scalar_type() && !from.is_conj() && !from.is_neg();
  if (!is_plain) {
    to.copy_(from);
  } else if (from.numel() > 0) {
    std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes());
  }
}

bool held_by_caller_only(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1 && tensor.is_contiguous() &&
         tensor.storage_offset() == 0 && !tensor.requires_grad();
}

void check_defined(const Tensors& tensors) {
  if (tensors.empty()) throw Error("there is no tensor in it; expected at least one.");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) throw Error(fmt::format("tensor {} is undefined.", i));
  }
}

void check_has_rows(const Tensors& batch) {
  check_defined(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].dim() == 0 || batch[i].size(0) != batch[0].size(0)) {
      throw Error(
          fmt::format("the collate function made tensor {} of shape [{}]; expected one row per element in each, "
                      "like the first, which has shape [{}].",
                      i, fmt::join(batch[i].sizes(), ", "), fmt::join(batch[0].sizes(), ", ")));
    }
  }
}

}  // namespace

void ItemBuffers::set_layout(const Tensors& element) {
  check_defined(element);
  for (const at::Tensor& tensor : element) layout_.push_back({tensor.sizes().vec(), tensor.scalar_type()});
}

void ItemBuffers::set_layout_of_rows(const Tensors& batch) {
  check_has_rows(batch);
  for (const at::Tensor& tensor : batch) layout_.push_back({tensor.sizes().slice(1).vec(), tensor.scalar_type()});
}

void ItemBuffers::provide(Tensors& item, std::int64_t rows) {
  const std::lock_guard lock(mutex_);
  if (!item.empty()) return;
  if (rows == rows_per_item_ && !free_.empty()) {
    item = std::move(free_.back());
    free_.pop_back();
    return;
  }
  for (const Part& part : layout_) {
    std::vector<std::int64_t> shape = {rows};
    shape.insert(shape.end(), part.row_shape.begin(), part.row_shape.end());
    item.push_back(at::empty(shape, part.type));
  }
}

void ItemBuffers::check_count(const Tensors& tensors) const {
  check_defined(tensors);
  if (tensors.size() != layout_.size()) {
    throw Error(fmt::format("it has {} tensors; all elements must be like the first, which has {}.", tensors.size(),
                            layout_.size()));
  }
}

void ItemBuffers::check_shape(std::size_t part, at::IntArrayRef row_shape) const {
  const std::vector<std::int64_t>& expected = layout_[part].row_shape;
  if (row_shape == at::IntArrayRef(expected)) return;
  throw Error(
      fmt::format("tensor {} has shape [{}]; all elements must be like the first, where it has shape [{}]. Make "
                  "them equal in the data set, or give a collate function that does.",
                  part, fmt::join(row_shape, ", "), fmt::join(expected, ", ")));
}

void ItemBuffers::write_row(const Tensors& item, std::int64_t row, const Tensors& element) const {
  const at::NoGradGuard no_grad;
  check_count(element);
  for (std::size_t i = 0; i < element.size(); ++i) {
    check_shape(i, element[i].sizes());
    copy(item[i].select(0, row), element[i]);
  }
}

void ItemBuffers::write_rows(const Tensors& item, std::int64_t row, const Tensors& batch) const {
  const at::NoGradGuard no_grad;
  check_has_rows(batch);
  check_count(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    check_shape(i, batch[i].sizes().slice(1));
    copy(item[i].narrow(0, row, batch[i].size(0)), batch[i]);
  }
}

Tensors ItemBuffers::conforming(Tensors batch) const {
  check_has_rows(batch);
  check_count(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    check_shape(i, batch[i].sizes().slice(1));
    batch[i] = batch[i].to(layout_[i].type);
  }
  return batch;
}

void ItemBuffers::give_back(Tensors item) {
  if (item.size() != layout_.size() || !std::all_of(item.begin(), item.end(), held_by_caller_only)) return;
  for (std::size_t i = 0; i < item.size(); ++i) {
    // The caller may have changed the tensor itself, and the last item of an epoch may be short.
    const at::IntArrayRef shape = item[i].sizes();
    const bool has_rows = !shape.empty() && shape[0] == rows_per_item_;
    if (!has_rows || shape.slice(1) != at::IntArrayRef(layout_[i].row_shape)) return;
    if (item[i].scalar_type() != layout_[i].type) return;
  }
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(item));
}

}  // namespace poptorch
