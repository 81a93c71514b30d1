// What a kernel does to sums before it stores them: times a factor and plus a summand per channel, plus another tensor,
// between bounds. Each step rounds as an op of its own would. Called by the kernels of conv and by gemm.h.
#pragma once

#include <cstdint>
#include <limits>

namespace aspen {

struct Epilogue {
  const float* scale = nullptr;  // by channel
  const float* shift = nullptr;
  const float* other = nullptr;  // laid out as the result
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  // For a part of the result: its first channel, and where it begins.
  Epilogue from(std::int64_t channel, std::int64_t place) const {
    auto moved = [](const float* p, std::int64_t by) { return p == nullptr ? nullptr : p + by; };
    return {moved(scale, channel), moved(shift, channel), moved(other, place), low, high};
  }
};

}  // namespace aspen
