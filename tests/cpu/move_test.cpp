// Ops that move, choose or draw elements: results equal the reference to the last bit.
#include "aspen/ops/cast/cast.h"
#include "aspen/ops/random/random.h"
#include "aspen/ops/shape/shape.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

TensorType of(DType dtype, Shape shape) { return {dtype, std::move(shape)}; }

TEST(Transpose, PlanesOfEverySize) {
  for (std::int64_t rows : {1, 2, 15, 16, 17, 50}) {
    for (std::int64_t columns : {1, 3, 16, 31, 64}) {
      compare("transpose", Attrs::of(TransposeAttrs{{1, 0}}), {f32({rows, columns})}, {.tolerance = 0});
    }
  }
}

TEST(Transpose, EveryPermutationOfFourAxes) {
  std::vector<std::int64_t> permutation = {0, 1, 2, 3};
  do {
    compare("transpose", Attrs::of(TransposeAttrs{permutation}), {f32({3, 5, 18, 7})}, {.tolerance = 0});
    compare("transpose", Attrs::of(TransposeAttrs{permutation}), {i32({4, 1, 17, 2})}, {.tolerance = 0, .top = 1000});
    compare("transpose", Attrs::of(TransposeAttrs{permutation}), {of(DType::kF16, {3, 2, 5, 4})}, {.tolerance = 0});
  } while (std::next_permutation(permutation.begin(), permutation.end()));
}

TEST(Select, EveryKindOfBroadcast) {
  for (const Shape& condition : {Shape{6, 50}, Shape{50}, Shape{6, 1}, Shape{}}) {
    for (const Shape& x : {Shape{6, 50}, Shape{6, 1}, Shape{}}) {
      for (const Shape& y : {Shape{6, 50}, Shape{50}, Shape{}}) {
        compare("select", Attrs(), {of(DType::kBool, condition), f32(x), f32(y)}, {.tolerance = 0});
      }
    }
  }
}

TEST(Cast, BetweenAllPairs) {
  auto types = {DType::kF32, DType::kF16, DType::kI32, DType::kI16, DType::kI8, DType::kU8, DType::kBool};
  for (DType from : types) {
    for (DType to : types) {
      compare("cast", Attrs::of(CastAttrs{to}), {of(from, {1003})}, {.tolerance = 0, .low = -3, .high = 3, .top = 2});
    }
  }
}

TEST(Random, SameNumbersAsTheReference) {
  for (std::int64_t n : {1, 3, 63, 64, 65, 1003}) {
    compare("random_uniform", Attrs::of(RandomAttrs{DType::kF32, {n}, 5}), {}, {.tolerance = 0});
    compare("random_normal", Attrs::of(RandomAttrs{DType::kF32, {n}, 5}), {}, {.tolerance = 0});
    for (double p : {0.0, 0.3, 1.0}) {
      compare("dropout", Attrs::of(DropoutAttrs{p, 9}), {f32({n})}, {.tolerance = 0});
    }
  }
}

}  // namespace
}  // namespace aspen::testing
