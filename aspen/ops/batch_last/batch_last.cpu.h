// What the loops over images that lie batch last are told: a line is a row of a plane, all images of one pixel after
// those of the one before it, so that a step of a pixel is a step of so many floats and vectors need not know where
// pixels end.
#pragma once

#include <cstdint>

namespace aspen {

// x has its padding around it.
struct LastConv {
  std::int64_t images = 0, channels = 0, outputs = 0;
  std::int64_t height = 0, width = 0;          // of x
  std::int64_t out_height = 0, out_width = 0;  // of y
  std::int64_t kernel_y = 1, kernel_x = 1;
  std::int64_t dilation_y = 1, dilation_x = 1;

  std::int64_t line() const { return width * images; }
  std::int64_t plane() const { return height * line(); }
  std::int64_t out_line() const { return out_width * images; }
  std::int64_t out_plane() const { return out_height * out_line(); }
  std::int64_t window() const { return kernel_y * kernel_x; }
  std::int64_t taps() const { return channels * window(); }
  // From the first tap of a kernel to another one of its channel.
  std::int64_t tap(std::int64_t y, std::int64_t x) const { return y * dilation_y * line() + x * dilation_x * images; }
};

// Touching windows.
struct LastWindow {
  std::int64_t y = 1, x = 1;
};

// Planes and their windows.
struct LastPool {
  std::int64_t planes = 0, height = 0, width = 0, images = 0;
  LastWindow window;

  std::int64_t line() const { return width * images; }
  std::int64_t pooled_height() const { return height / window.y; }
  std::int64_t pooled_line() const { return width / window.x * images; }
};

struct LineRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

// Lines of several planes.
struct ConstLines {
  const float* first = nullptr;
  std::int64_t plane = 0, line = 0;  // steps
};

}  // namespace aspen
