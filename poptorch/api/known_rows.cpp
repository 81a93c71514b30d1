#include "poptorch/api/known_rows.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "poptorch/error.h"
#include "poptorch/model/byte_limit.h"

namespace poptorch {

void check_tensor(bool holds, const char* rule, const at::Tensor& tensor) {
  if (holds) return;
  throw Error(fmt::format("[DataLoader] expected {}, not shape [{}] of {}.", rule, fmt::join(tensor.sizes(), ", "),
                          toString(tensor.scalar_type())));
}

std::optional<std::vector<std::int64_t>> changed_images(const at::Tensor& images, const at::Tensor& before,
                                                        const at::Tensor& known,
                                                        const std::vector<std::int64_t>& indices) {
  check_tensor(images.scalar_type() == at::kByte && images.dim() == 4, "images of bytes", images);
  check_tensor(before.scalar_type() == at::kByte && before.sizes() == images.sizes(), "bytes like the images", before);
  check_tensor(
      known.scalar_type() == at::kBool && known.dim() == 1 && known.size(0) == images.size(0) && known.is_contiguous(),
      "a mark for each image", known);
  const std::int64_t size = images.size(0) > 0 ? images.numel() / images.size(0) : 0;
  const bool lie_alike =
      images.strides() == before.strides() && images.is_non_overlapping_and_dense() && images.stride(0) == size;
  const auto is_same = [&](std::int64_t index) {
    if (!lie_alike) return images[index].equal(before[index]);
    return std::memcmp(images.data_ptr<std::uint8_t>() + index * size, before.data_ptr<std::uint8_t>() + index * size,
                       static_cast<std::size_t>(size)) == 0;
  };
  std::vector<std::int64_t> changed;
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= images.size(0)) return std::nullopt;
    if (!known.data_ptr<bool>()[index] || !is_same(index)) changed.push_back(index);
  }
  return changed;
}

std::optional<at::Tensor> picked_rows(const at::Tensor& tensor, const std::vector<std::int64_t>& indices,
                                      at::Tensor rows) {
  check_tensor(tensor.dim() > 0 && tensor.device().is_cpu(), "a tensor of the host with rows", tensor);
  const std::int64_t count = static_cast<std::int64_t>(indices.size());
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= tensor.size(0)) return std::nullopt;
  }
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  shape[0] = count;
  if (!rows.defined()) rows = at::empty(shape, tensor.options());
  check_tensor(
      rows.sizes() == at::IntArrayRef(shape) && rows.is_contiguous() && rows.scalar_type() == tensor.scalar_type(),
      "rows like those of the tensor", rows);
  if (count == 0) return rows;
  // Plain memory is copied here: torch would split a large copy among threads of its own.
  const at::Tensor first = tensor[0];
  const bool is_plain = first.is_contiguous();
  const std::size_t size = first.nbytes();
  const auto* const from = static_cast<const char*>(tensor.data_ptr());
  auto* to = static_cast<char*>(rows.data_ptr());
  const std::int64_t step = tensor.stride(0) * static_cast<std::int64_t>(tensor.element_size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = indices[static_cast<std::size_t>(i)];
    if (!is_plain) {
      rows[i].copy_(tensor[index]);
    } else if (size > 0) {
      std::memcpy(to + static_cast<std::size_t>(i) * size, from + index * step, size);
    }
  }
  return rows;
}

std::uint64_t loader_memory() {
  return bytes_in_environment("DataLoader", "ASPEN_LOADER_MEMORY", std::uint64_t{1} << 30);
}

}  // namespace poptorch
