// Convolution with one image per vector lane, for layers of few channels: every tap is a full vector however narrow
// the rows and however few the channels. Images are transposed into the workspace by blocks of as many as a vector
// has lanes, as (channel, row, column, image). Called by the conv kernels.
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

std::int64_t conv_lanes();  // images handled at once
std::size_t conv_lanes_workspace(const ConvShape& shape);

// x (N, C, H, W), w (O, C, KH, KW), bias (O) or nullptr, y and g (N, O, OH, OW); the workspace is 64-byte aligned.
void conv_lanes_forward(const ConvShape& shape, const float* x, const float* w, const float* bias, float* y,
                        float* workspace);
void conv_lanes_input_grad(const ConvShape& shape, const float* g, const float* w, float* dx, float* workspace);
void conv_lanes_weight_grad(const ConvShape& shape, const float* x, const float* g, float* dw, float* workspace);

}  // namespace aspen
