// Ops that move, choose or draw elements: results equal the reference to the last bit.
#include <bit>
#include <cstring>

#include "aspen/ops/cast/cast.h"
#include "aspen/ops/random/random.h"
#include "aspen/ops/shape/shape.h"
#include "aspen/ops/source/source.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

TensorType of(DType dtype, Shape shape) { return {dtype, std::move(shape)}; }

// Of every size an element can have; moving rows of two or four makes larger ones of them.
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kU8};

void compare_move(const std::string& op, const Attrs& attrs, const std::vector<Shape>& shapes) {
  for (DType dtype : kTypes) {
    InputTypes inputs;
    for (const Shape& shape : shapes) inputs.push_back(of(dtype, shape));
    compare(op, attrs, inputs, {.tolerance = 0, .top = 200});
  }
}

TEST(Transpose, PlanesOfEverySize) {
  for (std::int64_t rows : {1, 2, 7, 8, 15, 16, 17, 50, 131}) {
    for (std::int64_t columns : {1, 3, 9, 16, 31, 64, 75}) {
      compare_move("transpose", Attrs::of(TransposeAttrs{{1, 0}}), {{rows, columns}});
    }
  }
}

TEST(Transpose, EveryPermutationOfFourAxes) {
  std::vector<std::int64_t> permutation = {0, 1, 2, 3};
  do {
    for (const Shape& x : {Shape{3, 5, 18, 7}, Shape{4, 1, 17, 2}, Shape{2, 9, 11, 4}, Shape{5, 3, 6, 8}}) {
      compare_move("transpose", Attrs::of(TransposeAttrs{permutation}), {x});
    }
  } while (std::next_permutation(permutation.begin(), permutation.end()));
}

TEST(Full, EveryTypeAndLength) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI32, DType::kI16, DType::kI8,
                      DType::kU8, DType::kBool}) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3, 37}, Shape{1000}}) {
      compare("full", Attrs::of(FullAttrs{dtype, shape, 3.3}), {}, {.tolerance = 0});
    }
  }
}

TEST(Broadcast, RowsColumnsAndBetween) {
  for (const Shape& x : {Shape{}, Shape{1}, Shape{29}, Shape{7, 1}, Shape{5, 1, 29}, Shape{5, 7, 1}, Shape{5, 1, 1}}) {
    compare_move("broadcast", Attrs::of(BroadcastAttrs{{5, 7, 29}}), {x});
  }
}

TEST(Reverse, EverySetOfAxes) {
  for (const auto& axes : std::vector<std::vector<std::int64_t>>{{}, {0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}}) {
    for (const Shape& x : {Shape{4, 3, 37}, Shape{40, 9, 3}, Shape{3, 5, 1}}) {
      compare_move("reverse", Attrs::of(ReverseAttrs{axes}), {x});
    }
  }
}

TEST(Slice, StepsAndRuns) {
  for (std::int64_t step : {1, 2, 3, 5}) {
    for (std::int64_t start : {0, 1, 30}) {
      for (std::int64_t outer_step : {1, 2}) {
        SliceAttrs attrs{{1, 0, start}, {6, 4, 70}, {outer_step, 1, step}};
        Shape picked = request_of("slice", Attrs::of(attrs), {f32({6, 4, 71})}).outputs[0].shape;
        compare_move("slice", Attrs::of(attrs), {{6, 4, 71}});
        compare_move("slice_update", Attrs::of(attrs), {{6, 4, 71}, picked});
      }
    }
  }
  for (std::int64_t run = 0; run <= 70; ++run) {
    compare_move("slice", Attrs::of(SliceAttrs{{0, 1}, {5, 1 + run}, {1, 1}}), {{5, 72}});
  }
}

TEST(Pad, AnyAxisBeforeBetweenAndBehind) {
  for (std::int64_t axis : {0, 1, 2, 3}) {
    for (std::int64_t low : {-2, 0, 3}) {
      for (std::int64_t high : {-1, 0, 20}) {
        for (std::int64_t interior : {0, 1, 2}) {
          PadAttrs attrs{Shape(4, 0), Shape(4, 0), Shape(4, 0), 3};
          attrs.low[axis] = low;
          attrs.high[axis] = high;
          attrs.interior[axis] = interior;
          compare_move("pad", Attrs::of(attrs), {{4, 3, 5, 7}});
        }
      }
    }
  }
  compare_move("pad", Attrs::of(PadAttrs{{1, 0, 2, 3}, {0, 1, 2, 3}, {1, 0, 0, 1}, 3}), {{4, 3, 5, 7}});
  compare_move("pad", Attrs::of(PadAttrs{{-9, 1}, {4, 1}, {0, 0}, 3}), {{6, 7}});
  compare_move("pad", Attrs::of(PadAttrs{{2, 1}, {4, 1}, {0, 0}, 3}), {{0, 7}});
}

TEST(Concat, AnyAxis) {
  for (std::int64_t axis : {0, 1, 2}) {
    for (std::int64_t width : {17, 600}) {
      std::vector<Shape> shapes(3, Shape{4, 3, width});
      shapes[1][axis] = axis == 2 ? width / 2 : 1;
      shapes[2][axis] = width + 16;
      compare_move("concat", Attrs::of(ConcatAttrs{axis}), shapes);
    }
  }
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
    case DType::kI32: return from == DType::kF32 || from == DType::kBool;
    case DType::kI8:
    case DType::kU8: return from == DType::kF32;
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

TEST(Cast, FloatsThatIntegersCannotHold) {
  const float inf = std::numeric_limits<float>::infinity(), limit = 2147483648.0f;
  std::vector<float> values = {
      0.99f, -0.99f,        limit,  -limit, std::nextafter(limit, 0.0f), std::nextafter(-limit, -inf), 3e9f, -3e9f, inf,
      -inf,  std::nanf(""), 300.7f, -1.5f};
  while (values.size() < 77) values.push_back(values[values.size() - 13]);
  for (DType to : {DType::kI32, DType::kI8, DType::kU8}) {
    KernelRequest request = request_of("cast", Attrs::of(CastAttrs{to}), {f32({77})});
    auto expected = run_kernel(*make_reference_backend(), request, {values.data()}),
         actual = run_kernel(tuned_backend(), request, {values.data()});
    EXPECT_EQ(std::memcmp(expected[0].get(), actual[0].get(), request.outputs[0].bytes()), 0) << name_of(to);
  }
}

TEST(Narrow, EveryNumberThatFits) {
  for (std::int64_t n : {0, 1, 3, 7, 8, 15, 16, 17, 63, 1003}) {
    compare("narrow", Attrs::of(NarrowAttrs{"x"}), {of(DType::kI64, {n})},
            {.tolerance = 0, .top = std::numeric_limits<int>::max(), .bottom = std::numeric_limits<int>::min()});
  }
}

// In every place of a vector and behind the last one.
TEST(Narrow, NumbersThatDoNotFitAreFoundAnywhere) {
  const KernelRequest request = request_of("narrow", Attrs::of(NarrowAttrs{"x"}), {of(DType::kI64, {67})});
  const std::int64_t limit = std::int64_t{1} << 31;
  for (std::int64_t value : {limit, -limit - 1, limit << 1, -(limit << 1), std::numeric_limits<std::int64_t>::min()}) {
    for (std::size_t place = 0; place < 67; ++place) {
      std::vector<std::int64_t> x(67, -1);
      x[place] = value;
      EXPECT_THROW(run_kernel(tuned_backend(), request, {x.data()}), UserError) << value << " at " << place;
    }
  }
}

TEST(Random, SameNumbersAsTheReference) {
  for (std::int64_t n : {1, 3, 63, 64, 65, 1003}) {
    compare("random_uniform", Attrs::of(RandomAttrs{DType::kF32, {n}, 5}), {}, {.tolerance = 0});
    compare("random_normal", Attrs::of(RandomAttrs{DType::kF32, {n}, 5}), {}, {.tolerance = 1e-6});
    for (double p : {0.0, 0.3, 1.0}) {
      compare("dropout", Attrs::of(DropoutAttrs{p, 9}), {f32({n})}, {.tolerance = 0});
      compare("dropout", Attrs::of(DropoutAttrs{p, 9}), {f16({n})}, {.tolerance = 0});
    }
  }
}

// Floats of every exponent, between halves in all ways, denormal, beyond the largest half, infinite and none: as they
// come, by replica, by shards that begin anywhere in a block of random numbers.
TEST(Random, RoundsAtRandomAsTheReference) {
  std::vector<float> x;
  std::mt19937 random(5);
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (std::uint32_t mantissa : {0u, 1u, 0x0fffu, 0x1000u, 0x1fffu, 0x7fe000u, 0x7fefffu, 0x7ff000u, 0x7fffffu}) {
      x.push_back(std::bit_cast<float>(exponent << 23 | mantissa));
    }
    for (int i = 0; i < 9; ++i)
      x.push_back(std::bit_cast<float>(exponent << 23 | (static_cast<std::uint32_t>(random()) & 0x807fffff)));
  }
  x.push_back(-0.0f);  // an odd number of them
  const std::int64_t n = static_cast<std::int64_t>(x.size());
  for (std::int64_t draws :
       {RoundAtRandomAttrs::kPerReplica, RoundAtRandomAttrs::kShared, RoundAtRandomAttrs::kPerShard}) {
    const KernelRequest request = request_of("round_at_random", Attrs::of(RoundAtRandomAttrs{7, draws}), {f32({n})});
    for (std::uint32_t replica : {0u, 1u, 2u, 3u}) {
      const StepContext step{.seed = 42, .step = 3, .replica = replica};
      const Buffer expected = std::move(run_kernel(*make_reference_backend(), request, {x.data()}, step)[0]);
      const Buffer found = std::move(run_kernel(tuned_backend(), request, {x.data()}, step)[0]);
      for (std::int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(expected.as<std::uint16_t>()[i], found.as<std::uint16_t>()[i]) << x[static_cast<std::size_t>(i)];
      }
    }
  }
}

}  // namespace
}  // namespace aspen::testing
