// Convolution with one image per vector lane, for layers of few channels: every tap is a full vector however narrow
// the rows and however few the channels. Images are transposed into the workspace by blocks of as many as a vector
// has lanes, as (channel, row, column, image). Work is done by rows, so that it can be cut between them: no result
// depends on where. Called by the conv kernels.
#pragma once

#include <cstddef>
#include <cstdint>

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

std::int64_t conv_lanes();  // images handled at once
// Bytes for any so many rows of either, and for packed weights.
std::size_t conv_lanes_workspace(const ConvShape& shape, std::int64_t rows);
std::size_t conv_lanes_packed(const ConvShape& shape);

// Weights in the order in which the loops read them, for all parts of the work. w (O, C, KH, KW), bias (O) or nullptr.
void conv_lanes_pack_forward(const ConvShape& shape, const float* w, const float* bias, float* packed);
void conv_lanes_pack_input_grad(const ConvShape& shape, const float* w, float* packed);

// x (N, C, H, W), y and g (N, O, OH, OW); workspace and packed weights are 64-byte aligned. The gradient by the weights
// is what the rows contribute.
void conv_lanes_forward(const ConvShape& shape, ConvRows rows, const float* x, const float* packed, float* y,
                        float* workspace);
void conv_lanes_input_grad(const ConvShape& shape, ConvRows rows, const float* g, const float* packed, float* dx,
                           float* workspace);
void conv_lanes_weight_grad(const ConvShape& shape, ConvRows rows, const float* x, const float* g, float* dw,
                            float* workspace);

}  // namespace aspen
