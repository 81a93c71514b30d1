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
      bool is_copy = rows == 1 || columns == 1;  // nothing to turn
      compare("transpose", Attrs::of(TransposeAttrs{{1, 0}}), {f32({rows, columns})},
              {.tolerance = 0, .on_reference = is_copy});
    }
  }
}

// The vector loops turn planes of four-byte elements: where the innermost axis stays, and in half, the reference
// copies.
void compare_permutation(const std::vector<std::int64_t>& permutation, const TensorType& x) {
  std::int64_t innermost = 3, last = 3;
  while (x.shape[permutation[last]] == 1) --last;
  bool stays = permutation[last] == innermost;
  compare("transpose", Attrs::of(TransposeAttrs{permutation}), {x},
          {.tolerance = 0, .top = 1000, .on_reference = stays || x.dtype == DType::kF16});
}

TEST(Transpose, EveryPermutationOfFourAxes) {
  std::vector<std::int64_t> permutation = {0, 1, 2, 3};
  do {
    compare_permutation(permutation, f32({3, 5, 18, 7}));
    compare_permutation(permutation, i32({4, 1, 17, 2}));
    compare_permutation(permutation, f16({3, 2, 5, 4}));
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

// Those that models use in every step.
bool has_cast_loop(DType from, DType to) {
  switch (to) {
    case DType::kF32: return from != DType::kF32 && from != DType::kI16;
    case DType::kF16: return from == DType::kF32;
    case DType::kI32: return from == DType::kBool;
    case DType::kBool: return from == DType::kF32 || from == DType::kI32;
    default: return false;
  }
}

TEST(Cast, BetweenAllPairs) {
  auto types = {DType::kF32, DType::kF16, DType::kI32, DType::kI16, DType::kI8, DType::kU8, DType::kBool};
  for (DType from : types) {
    for (DType to : types) {
      compare("cast", Attrs::of(CastAttrs{to}), {of(from, {1003})},
              {.tolerance = 0, .low = -3, .high = 3, .on_reference = !has_cast_loop(from, to)});
    }
  }
}

TEST(Random, SameNumbersAsTheReference) {
  for (std::int64_t n : {1, 3, 63, 64, 65, 1003}) {
    compare("random_uniform", Attrs::of(RandomAttrs{DType::kF32, {n}, 5}), {}, {.tolerance = 0});
    compare("random_normal", Attrs::of(RandomAttrs{DType::kF32, {n}, 5}), {}, {.tolerance = 0, .on_reference = true});
    for (double p : {0.0, 0.3, 1.0}) {
      compare("dropout", Attrs::of(DropoutAttrs{p, 9}), {f32({n})}, {.tolerance = 0});
    }
  }
}

}  // namespace
}  // namespace aspen::testing
