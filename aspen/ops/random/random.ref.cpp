#include "aspen/ops/random/random.h"

#include <algorithm>
#include <numeric>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/random/philox.h"
#include "aspen/ops/random/random_rounding.h"

namespace aspen {
namespace {

// Calls f(i, word) for every element with the 32 random bits that are its own.
template <class F>
void for_each_word(const RandomStream& stream, std::int64_t n, F&& f) {
  for (std::int64_t first = 0; first < n; first += 4) {
    PhiloxBlock block = stream.block(first / 4);
    for (std::int64_t i = first; i < std::min(first + 4, n); ++i) f(i, block[i - first]);
  }
}

void random_uniform(const KernelCall& call) {
  RandomStream stream(call.step(), call.attrs<RandomAttrs>().stream);
  dispatch_stored(call.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = call.out<T>(0);
    for_each_word(stream, call.out_type(0).numel(),
                  [&](std::int64_t i, std::uint32_t bits) { y[i] = static_cast<T>(uniform_from_bits<T>(bits)); });
  });
}

void random_normal(const KernelCall& call) {
  RandomStream stream(call.step(), call.attrs<RandomAttrs>().stream);
  std::int64_t n = call.out_type(0).numel();
  dispatch_floating(call.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = call.out<T>(0);
    for (std::int64_t first = 0; first < n; first += 4) {
      auto normals = normals_from_block(stream.block(first / 4));
      for (std::int64_t i = first; i < std::min(first + 4, n); ++i) y[i] = static_cast<T>(normals[i - first]);
    }
  });
}

// An element is kept where its uniform number is at least p: always for p = 0, never for p = 1. As in PyTorch the
// mask multiplies, so NaN and infinity are not hidden by it.
void dropout(const KernelCall& call) {
  const auto& attrs = call.attrs<DropoutAttrs>();
  RandomStream stream(call.step(), attrs.stream);
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T* x = call.in<T>(0);
    T* y = call.out<T>(0);
    A scale = attrs.p < 1 ? static_cast<A>(1 / (1 - attrs.p)) : A(0);
    float p = static_cast<float>(attrs.p);
    for_each_word(stream, call.in_type(0).numel(), [&](std::int64_t i, std::uint32_t bits) {
      y[i] = static_cast<T>(static_cast<A>(x[i]) * (uniform_from_bits(bits) >= p ? scale : A(0)));
    });
  });
}

// Fisher and Yates: element i changes places with one of those up to i, chosen by word i of the stream.
void random_permutation(const KernelCall& call) {
  const auto& attrs = call.attrs<RandomPermutationAttrs>();
  RandomStream stream(call.step(), attrs.stream);
  std::int32_t* y = call.out<std::int32_t>(0);
  std::iota(y, y + attrs.size, 0);
  for_each_word(stream, attrs.size, [&](std::int64_t i, std::uint32_t bits) {
    auto chosen = static_cast<std::int64_t>(static_cast<std::uint64_t>(bits) * static_cast<std::uint64_t>(i + 1) >> 32);
    std::swap(y[i], y[chosen]);
  });
}

void round_at_random(const KernelCall& call) {
  const std::int64_t n = call.in_type(0).numel();
  const auto [stream, first] = rounding_draws(call.step(), call.attrs<RoundAtRandomAttrs>(), n);
  const float* x = call.in<float>(0);
  Half* y = call.out<Half>(0);
  PhiloxBlock block{};
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t at = first + i;
    if (i == 0 || at % 4 == 0) block = stream.block(at / 4);
    y[i] = aspen::round_at_random(x[i], block[static_cast<std::size_t>(at % 4)]);
  }
}

}  // namespace

void register_random_ref(KernelRegistry& kernels) {
  kernels.add("random_uniform", random_uniform);
  kernels.add("random_normal", random_normal);
  kernels.add("dropout", dropout);
  kernels.add("random_permutation", random_permutation);
  kernels.add("round_at_random", round_at_random);
}

}  // namespace aspen
