// Convolution with one image per vector lane, for layers of few channels: every tap is a full vector however narrow
// the rows and however few the channels. Images are transposed into the workspace by blocks of as many as a vector
// has lanes, as (channel, row, column, image). Work can be cut between units of images, of which a vector holds one or
// two, and between rows: no result depends on where. Called by the conv kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "aspen/ops/conv/conv_types.cpu.h"

namespace aspen {

// Two spatial axes, one group.
struct ConvShape {
  std::int64_t images = 0, channels = 0, outputs = 0;
  std::int64_t height = 0, width = 0;          // of x
  std::int64_t out_height = 0, out_width = 0;  // of y
  std::int64_t kernel_y = 1, kernel_x = 1;
  std::int64_t stride_y = 1, stride_x = 1;
  std::int64_t pad_y = 0, pad_x = 0;
  std::int64_t dilation_y = 1, dilation_x = 1;

  std::int64_t padded_height() const { return height + 2 * pad_y; }
  std::int64_t padded_width() const { return width + 2 * pad_x; }
  std::int64_t taps() const { return channels * kernel_y * kernel_x; }
};

// Rows begin, ..., end - 1 of y, or of x for the gradient by the input.
struct ConvRows {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

// Where gradients by the weights go: those of units 0, 2, ... and of units 1, 3, ...; perhaps the same place.
struct ConvSums {
  float *even = nullptr, *odd = nullptr;
};

std::int64_t conv_lanes();  // images handled at once
std::int64_t conv_unit();   // images that are handled as fast for each, or nearly so: a vector of lanes, or half of one
// Bytes for any so many rows of y or, for the gradient by the input, of x; and for packed weights.
std::size_t conv_lanes_workspace(ConvPass pass, const ConvShape& shape, std::int64_t rows);
std::size_t conv_lanes_packed(const ConvShape& shape);

// Weights in the order in which the loops read them, for all parts of the work. w (O, C, KH, KW), bias (O) or nullptr.
void conv_lanes_pack_forward(const ConvShape& shape, const float* w, const float* bias, float* packed);
void conv_lanes_pack_input_grad(const ConvShape& shape, const float* w, float* packed);

// x (N, C, H, W), y and g (N, O, OH, OW); workspace and packed weights are 64-byte aligned. The gradient by the weights
// is what the rows contribute, the sum of a unit after that of another.
void conv_lanes_forward(const ConvShape& shape, ConvRows rows, const float* x, const float* packed, float* y,
                        float* workspace);
void conv_lanes_input_grad(const ConvShape& shape, ConvRows rows, const float* g, const float* packed, float* dx,
                           float* workspace);
void conv_lanes_weight_grad(const ConvShape& shape, ConvRows rows, const float* x, const float* g, const ConvSums& dw,
                            float* workspace);

}  // namespace aspen
