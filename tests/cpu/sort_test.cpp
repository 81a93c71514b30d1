// Sorted lines and their first elements: equal to the reference to the last bit, ties, NaN and zeros included.
#include "aspen/ops/sort/sort.h"

#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

TEST(Sort, LinesOfEveryLengthAndType) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI32, DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    for (std::int64_t size : {0, 1, 2, 17, 199, 200, 1000, 3000, 5000}) {
      for (bool descending : {false, true}) {
        compare("sort", Attrs::of(SortAttrs{1, descending}), {TensorType{dtype, {2, size, 2}}},
                {.tolerance = 0, .top = dtype == DType::kBool ? 2 : 100, .bottom = dtype == DType::kI32 ? -100 : 0});
      }
    }
  }
}

TEST(Sort, TheFirstOfALine) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI32}) {
    for (std::int64_t size : {1, 50, 300, 5000}) {
      for (std::int64_t first : {0, 1, 2, 31, 33, 200, 300}) {
        if (first > size) continue;
        for (bool descending : {false, true}) {
          compare("sort", Attrs::of(SortAttrs{0, descending, first}), {TensorType{dtype, {size, 3}}},
                  {.tolerance = 0, .top = 100, .bottom = -100});
        }
      }
    }
  }
}

// In order, the wrong way round, and all equal: every candidate, or none, is replaced.
TEST(Sort, LinesInOrder) {
  constexpr std::int64_t kSize = 1000;
  for (float step : {-1.0f, 0.0f, 1.0f}) {
    std::vector<float> x(kSize);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = step * static_cast<float>(i);
    for (std::int64_t first : {-1, 40}) {
      KernelRequest request = request_of("sort", Attrs::of(SortAttrs{0, true, first}), {f32({kSize})});
      auto expected = run_kernel(*make_reference_backend(), request, {x.data()});
      auto actual = run_kernel(tuned_backend(), request, {x.data()});
      for (std::size_t i = 0; i < 2; ++i) {
        expect_close(request.outputs[i], expected[i], actual[i], 0, to_string(request));
      }
    }
  }
}

TEST(Sort, InfinitiesNanAndBothZeros) {
  float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values = {0, -0.0f, nan, -inf, 1, -1, inf, -nan, 1e-40f, -1e-40f, 0, -0.0f, nan};
  for (std::size_t size : {std::size_t{13}, std::size_t{999}}) {
    std::vector<float> x(size);
    for (std::size_t i = 0; i < size; ++i) x[i] = values[i % values.size()];
    for (bool descending : {false, true}) {
      for (std::int64_t first : {-1, 5}) {
        KernelRequest request =
            request_of("sort", Attrs::of(SortAttrs{0, descending, first}), {f32({static_cast<std::int64_t>(size)})});
        auto expected = run_kernel(*make_reference_backend(), request, {x.data()});
        auto actual = run_kernel(tuned_backend(), request, {x.data()});
        for (std::size_t i = 0; i < 2; ++i) {
          expect_close(request.outputs[i], expected[i], actual[i], 0, to_string(request));
        }
      }
    }
  }
}

TEST(Sort, RefusesMoreThanALineHolds) {
  EXPECT_THROW(request_of("sort", Attrs::of(SortAttrs{0, true, 4}), {f32({3})}), UserError);
  EXPECT_THROW(request_of("sort", Attrs::of(SortAttrs{0, true, -2}), {f32({3})}), UserError);
}

}  // namespace
}  // namespace aspen::testing
