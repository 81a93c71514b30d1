// Reads and writes by index: equal to the reference to the last bit, whatever the axis, the element and the mode.
#include "aspen/ops/index/index.h"

#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kU8};

// Indices are below 4.
void compare_index(const std::string& op, const Attrs& attrs, const InputTypes& inputs, bool on_reference = false) {
  compare(op, attrs, inputs, {.tolerance = 0, .top = 4, .on_reference = on_reference});
}

TEST(Take, RunsOfEveryLength) {
  for (DType dtype : kTypes) {
    for (std::int64_t run : {1, 2, 3, 4, 7, 8, 16, 17, 64}) {
      compare_index("take", Attrs::of(TakeAttrs{1}), {TensorType{dtype, {3, 4, run}}, i32({5, 3})});
    }
    compare_index("take", Attrs::of(TakeAttrs{0}), {TensorType{dtype, {4}}, i32({})});
    compare_index("take", Attrs::of(TakeAttrs{0}), {TensorType{dtype, {4, 3}}, i32({0})});
  }
}

TEST(Gather, EveryAxis) {
  for (DType dtype : kTypes) {
    for (std::int64_t axis : {0, 1, 2}) {
      for (const Shape& index : {Shape{4, 5, 6}, Shape{3, 1, 6}, Shape{1, 1, 1}, Shape{4, 4, 1}}) {
        compare_index("gather", Attrs::of(GatherAttrs{axis}), {TensorType{dtype, {4, 5, 6}}, i32(index)});
      }
    }
  }
}

// Small integers are combined by the reference, which sums them in int.
TEST(Scatter, EveryAxisAndMode) {
  for (const char* mode : kScatterModes) {
    for (DType dtype : kTypes) {
      bool on_reference = dtype == DType::kU8 && std::string(mode) != "set";
      for (std::int64_t axis : {0, 1, 2}) {
        for (const Shape& index : {Shape{4, 5, 6}, Shape{3, 1, 6}, Shape{1, 1, 1}, Shape{4, 4, 1}}) {
          compare_index("scatter", Attrs::of(ScatterAttrs{axis, mode}),
                        {TensorType{dtype, {4, 5, 6}}, i32(index), TensorType{dtype, index}}, on_reference);
        }
        Shape update{7, 19, 20};
        update[axis] = 9;
        Shape x = update;
        x[axis] = 5;
        compare_index("scatter_rows", Attrs::of(ScatterAttrs{axis, mode}),
                      {TensorType{dtype, x}, i32({9}), TensorType{dtype, update}}, on_reference);
      }
    }
  }
}

TEST(SumRows, ColumnsOfEveryWidth) {
  for (std::int64_t columns : {0, 1, 3, 16, 17, 64, 65, 130}) {
    for (std::int64_t count : {0, 1, 70}) {
      for (DType dtype : {DType::kF32, DType::kF16}) {
        compare_index("sum_rows", Attrs::of(SumRowsAttrs{5}),
                      {TensorType{dtype, {4, columns}}, i32({count}), i32({count})});
      }
    }
  }
}

// Some places get nothing, the first and the last ones among them.
TEST(SumRows, BagsInTheOrderOfTheResult) {
  constexpr std::int64_t kCount = 5000, kRows = 300;
  for (std::int64_t columns : {1, 64, 70}) {
    std::vector<float> x(static_cast<std::size_t>(90 * columns));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 13) - 6.0f;
    std::vector<std::int32_t> from(kCount), to(kCount);
    for (std::int64_t k = 0; k < kCount; ++k) {
      from[k] = static_cast<std::int32_t>(k * 37 % 90);
      to[k] = static_cast<std::int32_t>(5 + k / 40 * 2);
    }
    KernelRequest request =
        request_of("sum_rows", Attrs::of(SumRowsAttrs{kRows}), {f32({90, columns}), i32({kCount}), i32({kCount})});
    auto expected = run_kernel(*make_reference_backend(), request, {x.data(), from.data(), to.data()});
    auto actual = run_kernel(tuned_backend(), request, {x.data(), from.data(), to.data()});
    expect_close(request.outputs[0], expected[0], actual[0], 0, to_string(request));
  }
}

TEST(SumRows, NamesTheWrongIndex) {
  std::vector<float> x(12);
  std::vector<std::int32_t> good = {0, 1}, bad = {0, 4};
  KernelRequest request = request_of("sum_rows", Attrs::of(SumRowsAttrs{4}), {f32({4, 3}), i32({2}), i32({2})});
  EXPECT_THROW(run_kernel(tuned_backend(), request, {x.data(), bad.data(), good.data()}), UserError);
  EXPECT_THROW(run_kernel(tuned_backend(), request, {x.data(), good.data(), bad.data()}), UserError);
}

TEST(Scatter, NanWinsMaximumAndMinimum) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {1, 2, nan}, update = {nan, 1, 3, 4};
  std::vector<std::int32_t> index = {0, 1, 1, 2};
  for (const char* mode : {"max", "min"}) {
    for (const char* op : {"scatter", "scatter_rows"}) {
      KernelRequest request = request_of(op, Attrs::of(ScatterAttrs{0, mode}), {f32({3}), i32({4}), f32({4})});
      auto expected = run_kernel(*make_reference_backend(), request, {x.data(), index.data(), update.data()});
      auto actual = run_kernel(tuned_backend(), request, {x.data(), index.data(), update.data()});
      expect_close(request.outputs[0], expected[0], actual[0], 0, to_string(request));
    }
  }
}

void expect_error(const KernelRequest& request, const std::vector<const void*>& inputs) {
  std::string expected;
  try {
    run_kernel(*make_reference_backend(), request, inputs);
  } catch (const UserError& error) {
    expected = error.what();
  }
  EXPECT_NE(expected, "");
  try {
    run_kernel(tuned_backend(), request, inputs);
    FAIL() << to_string(request) << ": no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.what(), expected);
  }
}

TEST(Index, TheFirstWrongOneIsNamed) {
  std::vector<float> x(12, 1.0f), update(12, 1.0f);
  for (std::int32_t wrong : {-1, 3, 1 << 30}) {
    std::vector<std::int32_t> index = {0, 1, wrong, 2, wrong, 0};
    expect_error(request_of("take", Attrs::of(TakeAttrs{0}), {f32({3, 2}), i32({2, 3})}), {x.data(), index.data()});
    expect_error(request_of("gather", Attrs::of(GatherAttrs{1}), {f32({2, 3}), i32({2, 3})}), {x.data(), index.data()});
    expect_error(request_of("scatter", Attrs::of(ScatterAttrs{0, "add"}), {f32({3, 2}), i32({3, 2}), f32({3, 2})}),
                 {x.data(), index.data(), update.data()});
    expect_error(request_of("scatter_rows", Attrs::of(ScatterAttrs{0, "add"}), {f32({3, 2}), i32({6}), f32({6, 2})}),
                 {x.data(), index.data(), update.data()});
  }
}

}  // namespace
}  // namespace aspen::testing
