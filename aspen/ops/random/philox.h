// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
// as 1, 2, 3" (SC 2011). Every number of an op is a function of the seed, the step, the replica, the op's stream and
// the place of the element alone, so order of execution and number of threads never show. All backends draw from
// here: element i of a tensor takes word i % 4 of block i / 4.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <type_traits>

#include "aspen/base/dtype.h"

namespace aspen {

using PhiloxBlock = std::array<std::uint32_t, 4>;

inline PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0], b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The numbers of one op in one step. Key: the seed. Counter: block, stream, step (48 bits), replica (16 bits); two
// draws that differ in any of them never share a block.
class RandomStream {
 public:
  // The context is a kernel's StepContext: it has a seed, a step and a replica.
  template <class Context>
  RandomStream(const Context& context, std::int64_t stream)
      : key_{low(context.seed), high(context.seed)}, counter_{0, static_cast<std::uint32_t>(stream), low(context.step),
                                                              (high(context.step) & 0xffff) |
                                                                  static_cast<std::uint32_t>(context.replica) << 16} {}

  PhiloxBlock block(std::int64_t number) const { return philox(counter(number), key_); }

  // What a block is made of, for backends that make many at once.
  PhiloxBlock counter(std::int64_t number) const {
    PhiloxBlock counter = counter_;
    counter[0] = static_cast<std::uint32_t>(number);
    return counter;
  }
  std::array<std::uint32_t, 2> key() const { return key_; }

 private:
  static std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  static std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

  std::array<std::uint32_t, 2> key_;
  PhiloxBlock counter_;
};

// [0, 1) in steps of 2^-24: exact in float, never 1.
inline float uniform_from_bits(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// The same for a type, in steps that it holds exactly: 2^-11 for half, 2^-8 for bfloat16. Rounding the finer number
// could give 1.
template <class T>
float uniform_from_bits(std::uint32_t bits) {
  if constexpr (std::is_same_v<T, Half>) return static_cast<float>(bits >> 21) * 0x1p-11f;
  if constexpr (std::is_same_v<T, BFloat16>) return static_cast<float>(bits >> 24) * 0x1p-8f;
  return uniform_from_bits(bits);
}

// Four normal numbers from one block, by the method of Box and Muller. The radius takes 1 - u, which is never 0.
inline std::array<float, 4> normals_from_block(const PhiloxBlock& block) {
  std::array<float, 4> result;
  for (int pair = 0; pair < 4; pair += 2) {
    float radius = std::sqrt(-2 * std::log(1 - uniform_from_bits(block[pair])));
    float angle = 2 * std::numbers::pi_v<float> * uniform_from_bits(block[pair + 1]);
    result[pair] = radius * std::cos(angle);
    result[pair + 1] = radius * std::sin(angle);
  }
  return result;
}

}  // namespace aspen
