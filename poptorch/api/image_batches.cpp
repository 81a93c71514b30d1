#include "poptorch/api/image_batches.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "poptorch/api/known_rows.h"

namespace poptorch {
namespace {

constexpr std::int64_t kValues = 256;  // of a byte

void check_chain(const at::Tensor& images, const ImageChain& chain) {
  check_tensor(images.dim() == 4 && images.scalar_type() == at::kByte, "images of bytes, (N, height, width, C)",
               images);
  check_tensor(chain.tables.dim() == 2 && chain.tables.size(0) == images.size(3) && chain.tables.size(1) == kValues,
               "a table of 256 values for each channel", chain.tables);
  check_tensor(
      chain.places.dim() == 3 && chain.places.size(0) == images.size(3) && chain.places.scalar_type() == at::kLong,
      "a place for each element, (C, H, W) in int64", chain.places);
  const std::int64_t pixels = images.size(1) * images.size(2);
  const bool is_inside = chain.places.numel() == 0 || chain.places.max().item<std::int64_t>() < pixels;
  check_tensor(is_inside, "places inside the images", chain.places);
  check_tensor(
      chain.constants.sizes() == chain.places.sizes() && chain.constants.scalar_type() == chain.tables.scalar_type(),
      "a constant for each element, of the type of the tables", chain.constants);
}

// Whether every channel takes the pixels as they come, and these lie in equal distances.
bool is_in_order(const at::Tensor& images, const at::Tensor& places) {
  const std::int64_t pixels = images.size(1) * images.size(2);
  if (images.stride(1) != images.size(2) * images.stride(2) || places[0].numel() != pixels) return false;
  return places.flatten(1).eq(at::arange(pixels, at::kLong)).all().item<bool>();
}

void prefetch(const std::uint8_t* bytes, std::int64_t count) {
  constexpr std::int64_t kCacheLine = 64, kMost = 4096;
  for (std::int64_t i = 0; i < std::min(count, kMost); i += kCacheLine) __builtin_prefetch(bytes + i);
}

}  // namespace

ImageBatches::ImageBatches(at::Tensor images, const ImageChain& chain)
    : images_(std::move(images)), tables_(chain.tables.contiguous()), constants_(chain.constants.contiguous()) {
  check_chain(images_, chain);
  row_shape_ = chain.places.sizes().vec();
  elements_per_channel_ = row_shape_[1] * row_shape_[2];
  if (is_in_order(images_, chain.places)) return;
  const at::Tensor places = chain.places.contiguous();
  const std::int64_t width = images_.size(2);
  offsets_.reserve(static_cast<std::size_t>(places.numel()));
  for (std::int64_t i = 0; i < places.numel(); ++i) {
    const std::int64_t place = places.data_ptr<std::int64_t>()[i];
    const std::int64_t y = place / width, x = place % width, channel = i / elements_per_channel_;
    const std::int64_t offset = y * images_.stride(1) + x * images_.stride(2) + channel * images_.stride(3);
    has_constants_ |= place < 0;
    offsets_.push_back(place < 0 ? -1 : offset);
  }
}

bool ImageBatches::has(const std::vector<std::int64_t>& indices) const {
  // Memory that has become smaller meanwhile holds none of them.
  std::int64_t last = images_.storage_offset();
  for (std::int64_t axis = 0; axis < images_.dim(); ++axis) last += (images_.size(axis) - 1) * images_.stride(axis);
  if (static_cast<std::int64_t>(images_.storage().nbytes()) <= last) return false;
  const std::int64_t size = images_.size(0);
  return std::all_of(indices.begin(), indices.end(), [&](std::int64_t index) { return index >= 0 && index < size; });
}

template <class Element>
void ImageBatches::write_row(const std::uint8_t* image, Element* row) const {
  const auto* table = static_cast<const Element*>(tables_.data_ptr());
  const auto* constants = static_cast<const Element*>(constants_.data_ptr());
  const std::int64_t count = elements_per_channel_, step = images_.stride(2);
  for (std::int64_t channel = 0; channel < row_shape_[0]; ++channel, table += kValues) {
    Element* const to = row + channel * count;
    if (offsets_.empty()) {
      const std::uint8_t* const from = image + channel * images_.stride(3);
      if (step == 1) {
        for (std::int64_t i = 0; i < count; ++i) to[i] = table[from[i]];
      } else {
        for (std::int64_t i = 0; i < count; ++i) to[i] = table[from[i * step]];
      }
      continue;
    }
    const std::int64_t* const offsets = offsets_.data() + channel * count;
    if (!has_constants_) {
      for (std::int64_t i = 0; i < count; ++i) to[i] = table[image[offsets[i]]];
      continue;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = offsets[i] < 0 ? constants[channel * count + i] : table[image[offsets[i]]];
    }
  }
}

template <class Element>
void ImageBatches::write_rows(const std::vector<std::int64_t>& indices, Element* rows) const {
  const auto* const images = images_.data_ptr<std::uint8_t>();
  const std::int64_t size = row_shape_[0] * elements_per_channel_;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    // Images lie anywhere: the next one is on its way while this one is written.
    if (i + 1 < indices.size()) prefetch(images + indices[i + 1] * images_.stride(0), images_.stride(0));
    write_row(images + indices[i] * images_.stride(0), rows + static_cast<std::int64_t>(i) * size);
  }
}

std::optional<at::Tensor> ImageBatches::make(const std::vector<std::int64_t>& indices, at::Tensor rows) const {
  if (!has(indices)) return std::nullopt;
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(indices.size())};
  shape.insert(shape.end(), row_shape_.begin(), row_shape_.end());
  if (!rows.defined()) rows = at::empty(shape, tables_.options());
  check_tensor(rows.sizes() == at::IntArrayRef(shape) && rows.is_contiguous() && rows.scalar_type() == type(),
               "rows like the results", rows);
  // Values are moved, not computed: only their size matters.
  switch (rows.element_size()) {
    case 1: write_rows(indices, static_cast<std::uint8_t*>(rows.data_ptr())); break;
    case 2: write_rows(indices, static_cast<std::uint16_t*>(rows.data_ptr())); break;
    case 4: write_rows(indices, static_cast<std::uint32_t*>(rows.data_ptr())); break;
    case 8: write_rows(indices, static_cast<std::uint64_t*>(rows.data_ptr())); break;
    default: check_tensor(false, "results of at most 8 bytes each", rows);
  }
  return rows;
}

}  // namespace poptorch
