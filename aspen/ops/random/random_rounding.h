// Half results rounded at random: up or down with a probability in proportion to the distance, so that the mean over
// many roundings is the result itself. Numbers that half holds stay as they are. Used by the kernels of
// round_at_random.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "aspen/base/dtype.h"
#include "aspen/ops/random/philox.h"
#include "aspen/ops/random/random.h"

namespace aspen {

// `bits`: 32 random ones. Beyond the largest half there is no upper neighbour: there the nearest is taken.
inline Half round_at_random(float x, std::uint32_t bits) {
  const float size = std::fabs(x);
  if (!(size <= 65504.0f)) return static_cast<Half>(x);
  std::uint16_t half = 0;
  if (size >= 0x1p-14f) {
    // Half drops 13 bits of the mantissa; a carry of what is added to them rounds up.
    auto rounded = std::bit_cast<float>((std::bit_cast<std::uint32_t>(size) + (bits & 0x1fff)) & ~0x1fffu);
    half = std::bit_cast<std::uint16_t>(static_cast<Half>(std::fmin(rounded, 65504.0f)));
  } else {
    const float steps = size * 0x1p24f, below = std::floor(steps);  // subnormal numbers are 2^-24 apart
    half = static_cast<std::uint16_t>(below + (uniform_from_bits(bits) < steps - below ? 1.0f : 0.0f));
  }
  if (std::signbit(x)) half |= 0x8000;
  return std::bit_cast<Half>(half);
}

// What the elements of a tensor draw in one step: element i takes word (first + i) % 4 of block (first + i) / 4.
struct RoundingDraws {
  RandomStream stream;
  std::int64_t first;
};

template <class Context>
RoundingDraws rounding_draws(Context step, const RoundAtRandomAttrs& attrs, std::int64_t numel) {
  const bool is_shard = attrs.draws == RoundAtRandomAttrs::kPerShard;
  const std::int64_t first = is_shard ? static_cast<std::int64_t>(step.replica) * numel : 0;
  if (attrs.draws != RoundAtRandomAttrs::kPerReplica) step.replica = 0;
  return {RandomStream(step, attrs.stream), first};
}

}  // namespace aspen
