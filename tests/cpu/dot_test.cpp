#include "aspen/ops/dot/dot.h"

#include <array>

#include "aspen/backends/cpu/onednn.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

void compare_dot(const Shape& batch, std::int64_t m, std::int64_t n, std::int64_t k) {
  for (bool transpose_a : {false, true}) {
    for (bool transpose_b : {false, true}) {
      Shape a = batch, b = batch;
      a.insert(a.end(), {transpose_a ? k : m, transpose_a ? m : k});
      b.insert(b.end(), {transpose_b ? n : k, transpose_b ? k : n});
      compare("dot", Attrs::of(DotAttrs{transpose_a, transpose_b}), {f32(a), f32(b)}, {.tolerance = 5e-6});
    }
  }
}

TEST(Dot, SumsOfProductsInBfloat16StayFloat) {
  const bool on_reference = !onednn::multiplies_bfloat16();  // between conversions
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{64, 96, 80}, {130, 70, 300}}) {
    for (bool transpose_b : {false, true}) {
      const TensorType a{DType::kBF16, {m, k}}, b{DType::kBF16, transpose_b ? Shape{n, k} : Shape{k, n}};
      compare("dot_float", Attrs::of(DotAttrs{false, transpose_b}), {a, b},
              {.tolerance = 5e-6, .on_reference = on_reference});
    }
  }
}

TEST(Dot, LayersOfTheTutorial) {
  compare_dot({}, 16, 100, 972);
  compare_dot({}, 16, 10, 100);
  compare_dot({}, 100, 972, 16);
}

TEST(Dot, EverySmallRemainder) {
  for (std::int64_t m : {1, 2, 3, 5, 7, 9}) {
    for (std::int64_t n : {1, 3, 15, 17, 33, 50, 65}) compare_dot({}, m, n, 19);
  }
  for (std::int64_t k : {1, 2, 15, 16, 17, 31}) compare_dot({}, 5, 7, k);
}

TEST(Dot, LongSums) { compare_dot({}, 3, 5, 20000); }

TEST(Dot, MatricesByVectors) {
  for (std::int64_t k : {1, 7, 16, 700, 5000}) {
    for (std::int64_t outputs : {1, 5, 8, 61, 130}) {
      compare_dot({}, outputs, 1, k);
      compare_dot({}, 1, outputs, k);
    }
  }
  compare_dot({}, 1, 4200, 33);
  compare_dot({5}, 19, 1, 40);
  compare_dot({5}, 1, 19, 40);
}

TEST(Dot, LargeMatrices) { compare_dot({}, 130, 170, 200); }

// Longer than what stays in the cache, in every direction.
TEST(Dot, SeveralBlocks) {
  compare_dot({}, 13, 70, 1100);
  compare_dot({}, 400, 150, 15);
  compare_dot({}, 333, 131, 517);
}

TEST(Dot, Batches) {
  compare_dot({2, 3}, 8, 9, 10);
  compare_dot({4}, 128, 96, 64);
}

}  // namespace
}  // namespace aspen::testing
