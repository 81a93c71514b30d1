// The windows of averages as lists of bins per axis, plain and adaptive ones alike; what the kernels of all backends
// share.
#pragma once

#include <algorithm>
#include <vector>

#include "aspen/ops/pool/pool.h"

namespace aspen {

struct Bin {
  std::int64_t begin, end;  // elements it holds
  std::int64_t length;      // what it counts in the divisor
};

using Bins = std::vector<Bin>;

inline Bins window_bins(const PoolAttrs& attrs, std::size_t axis, std::int64_t in, std::int64_t out) {
  Bins bins;
  for (std::int64_t p = 0; p < out; ++p) {
    std::int64_t begin = p * attrs.stride[axis] - attrs.padding[axis];
    std::int64_t end = std::min(begin + attrs.kernel[axis], in + attrs.padding[axis]);
    std::int64_t padded = end - begin;
    begin = std::max<std::int64_t>(begin, 0);
    end = std::max(begin, std::min(end, in));
    bins.push_back({begin, end, attrs.count_include_pad ? padded : end - begin});
  }
  return bins;
}

inline Bins adaptive_bins(std::int64_t in, std::int64_t out) {
  Bins bins;
  for (std::int64_t p = 0; p < out; ++p) {
    std::int64_t begin = p * in / out, end = ((p + 1) * in + out - 1) / out;
    bins.push_back({begin, end, end - begin});
  }
  return bins;
}

}  // namespace aspen
