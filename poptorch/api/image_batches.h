// Batches of images made from the bytes of a data set, with the bits that a chain of transforms gives sample by sample.
// For chains that look at one byte at a time: each element of a result is a byte of its channel, translated by the
// channel's table, or a constant. Who calls this finds out tables and places by asking the transforms themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace poptorch {

struct ImageChain {
  at::Tensor tables;     // (C, 256): what becomes of each byte, in the type of the results
  at::Tensor places;     // (C, H, W), int64: the pixel each element comes from, counted by rows; negative: a constant
  at::Tensor constants;  // (C, H, W), of the results' type; looked at where places are negative
};

// images: uint8, (N, height, width, C), of any strides; read whenever a batch is made.
class ImageBatches {
 public:
  ImageBatches(at::Tensor images, const ImageChain& chain);

  // (B, C, H, W), written to `rows` if given: contiguous, of the type and shape of the results. Nothing if an index is
  // not one of the images'.
  std::optional<at::Tensor> make(const std::vector<std::int64_t>& indices, at::Tensor rows = {}) const;

  const std::vector<std::int64_t>& row_shape() const { return row_shape_; }
  at::ScalarType type() const { return tables_.scalar_type(); }

 private:
  template <class Element>
  void write_row(const std::uint8_t* image, Element* row) const;
  template <class Element>
  void write_rows(const std::vector<std::int64_t>& indices, Element* rows) const;
  bool has(const std::vector<std::int64_t>& indices) const;

  at::Tensor images_, tables_, constants_;
  std::vector<std::int64_t> row_shape_;
  std::int64_t elements_per_channel_;
  // Where an element's byte lies in its image. Places in the order of the pixels need no list.
  std::vector<std::int64_t> offsets_;
  bool has_constants_ = false;
};

}  // namespace poptorch
