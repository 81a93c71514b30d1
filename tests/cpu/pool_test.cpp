#include "aspen/ops/pool/pool.h"

#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

TEST(MaxPool, TouchingWindows) {
  PoolAttrs attrs{{2, 2}, {2, 2}, {0, 0}, {1, 1}};
  compare("max_pool", Attrs::of(attrs), {f32({16, 5, 26, 26})}, {.tolerance = 0});
  compare("max_pool", Attrs::of(attrs), {f32({3, 2, 7, 9})}, {.tolerance = 0});
}

TEST(MaxPool, PaddingStrideDilationAndCeiling) {
  compare("max_pool", Attrs::of(PoolAttrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}}), {f32({2, 5, 32, 32})}, {.tolerance = 0});
  compare("max_pool", Attrs::of(PoolAttrs{{2, 3}, {1, 3}, {1, 0}, {2, 1}}), {f32({2, 3, 11, 14})}, {.tolerance = 0});
  compare("max_pool", Attrs::of(PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {1, 1}, true}), {f32({2, 3, 7, 9})},
          {.tolerance = 0});
  compare("max_pool", Attrs::of(PoolAttrs{{3}, {2}, {1}, {1}}), {f32({2, 3, 33})}, {.tolerance = 0});
}

TEST(MaxPool, RowsShorterAndLongerThanAVector) {
  for (std::int64_t width : {9, 17, 32, 50, 75, 140}) {
    for (std::int64_t stride : {1, 2, 3, 4, 9}) {
      for (std::int64_t kernel : {2, 3, 5, 9, 20}) {
        for (std::int64_t dilation : {1, 2}) {
          for (bool ceil_mode : {false, true}) {
            for (std::int64_t padding : {std::int64_t{0}, kernel / 2}) {
              if ((kernel - 1) * dilation >= width + 2 * padding) continue;
              PoolAttrs attrs{{3, kernel}, {2, stride}, {1, padding}, {1, dilation}, ceil_mode};
              compare("max_pool", Attrs::of(attrs), {f32({1, 2, 7, width})}, {.tolerance = 0});
            }
          }
        }
      }
    }
  }
}

TEST(MaxPool, NanInLongRows) {
  std::vector<float> x(5 * 70, 1.0f);
  x[0] = x[100] = x[101] = x[349] = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t stride : {1, 2, 4, 10}) {
    std::int64_t kernel = stride == 10 ? 10 : 3;
    PoolAttrs attrs{{3, kernel}, {1, stride}, {1, 1}, {1, 1}};
    KernelRequest request = request_of("max_pool", Attrs::of(attrs), {f32({1, 1, 5, 70})});
    auto expected = run_kernel(*make_reference_backend(), request, {x.data()});
    auto actual = run_kernel(tuned_backend(), request, {x.data()});
    for (std::size_t i : {0, 1}) expect_close(request.outputs[i], expected[i], actual[i], 0, to_string(request));
  }
}

TEST(MaxPool, EqualElementsOfLongRowsGiveTheFirst) {
  for (float value : {1.0f, -std::numeric_limits<float>::infinity()}) {
    for (std::int64_t kernel : {3, 14}) {
      std::vector<float> x(2 * 28 * 56, value);
      PoolAttrs attrs{{kernel, kernel}, {kernel, kernel}, {0, 0}, {1, 1}};
      KernelRequest request = request_of("max_pool", Attrs::of(attrs), {f32({1, 2, 28, 56})});
      auto expected = run_kernel(*make_reference_backend(), request, {x.data()});
      auto actual = run_kernel(tuned_backend(), request, {x.data()});
      for (std::size_t i : {0, 1}) expect_close(request.outputs[i], expected[i], actual[i], 0, to_string(request));
    }
  }
}

TEST(MaxPool, ThreeAxes) {
  compare("max_pool", Attrs::of(PoolAttrs{{2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}}), {f32({2, 3, 6, 8, 17})},
          {.tolerance = 0});
  compare("max_pool", Attrs::of(PoolAttrs{{3, 2, 3}, {2, 1, 2}, {1, 1, 1}, {1, 2, 1}, true}), {f32({2, 3, 5, 7, 12})},
          {.tolerance = 0});
  compare("max_pool", Attrs::of(PoolAttrs{{1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}}), {f32({2, 3, 5, 8, 12})},
          {.tolerance = 0});
  compare("max_pool", Attrs::of(PoolAttrs{{1, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}}), {f32({2, 3, 1, 8, 12})},
          {.tolerance = 0});
}

TEST(MaxPool, EqualElementsGiveTheFirst) {
  compare("max_pool", Attrs::of(PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {1, 1}}), {f32({2, 3, 8, 8})},
          {.tolerance = 0, .low = 1, .high = 1});
}

TEST(MaxPool, NanWins) {
  std::vector<float> x(64, 1.0f);
  x[9] = x[27] = std::numeric_limits<float>::quiet_NaN();
  for (const PoolAttrs& attrs :
       {PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {1, 1}}, PoolAttrs{{3, 3}, {1, 1}, {1, 1}, {1, 1}}}) {
    KernelRequest request = request_of("max_pool", Attrs::of(attrs), {f32({1, 1, 8, 8})});
    auto expected = run_kernel(*make_reference_backend(), request, {x.data()});
    auto actual = run_kernel(tuned_backend(), request, {x.data()});
    for (std::size_t i = 0; i < 2; ++i) expect_close(request.outputs[i], expected[i], actual[i], 0, to_string(request));
  }
}

// Windows of 2 x 2 whose indices do, and do not, lie in their own window.
TEST(MaxPool, GradientOfTouchingWindows) {
  auto reference = make_reference_backend();
  KernelRequest pool =
      request_of("max_pool", Attrs::of(PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {1, 1}}), {f32({3, 5, 26, 38})});
  KernelRequest grad = request_of("max_pool_grad", Attrs::of(MaxPoolGradAttrs{{3, 5, 26, 38}}),
                                  {f32({3, 5, 13, 19}), i32({3, 5, 13, 19})});
  std::mt19937 random(5);
  Buffer x = random_buffer(pool.inputs[0].type, random, -1, 1, 2);
  Buffer g = random_buffer(grad.inputs[0].type, random, -1, 1, 2);
  auto pooled = run_kernel(*reference, pool, {x.get()});
  for (std::int32_t wrong : {0, 7}) {
    pooled[1].as<std::int32_t>()[40] += wrong;
    auto expected = run_kernel(*reference, grad, {g.get(), pooled[1].get()});
    auto actual = run_kernel(tuned_backend(), grad, {g.get(), pooled[1].get()});
    expect_close(grad.outputs[0], expected[0], actual[0], 0, to_string(grad));
  }
}

TEST(MaxPool, GradientAddsWhereWindowsOverlap) {
  compare("max_pool_grad", Attrs::of(MaxPoolGradAttrs{{4, 5, 9, 9}}), {f32({4, 5, 4, 4}), i32({4, 5, 4, 4})},
          {.top = 81});
}

// Forward and gradient.
void compare_average(const PoolAttrs& attrs, const Shape& x) {
  TensorType y = request_of("avg_pool", Attrs::of(attrs), {f32(x)}).outputs[0];
  compare("avg_pool", Attrs::of(attrs), {f32(x)});
  compare("avg_pool_grad", Attrs::of(AvgPoolGradAttrs{attrs, x}), {y});
}

TEST(AvgPool, WindowsOfEveryKind) {
  for (bool ceil_mode : {false, true}) {
    for (bool count_include_pad : {false, true}) {
      for (std::int64_t divisor : {0, 5}) {
        auto rest = [&](PoolAttrs attrs) {
          attrs.ceil_mode = ceil_mode;
          attrs.count_include_pad = count_include_pad;
          attrs.divisor = divisor;
          return attrs;
        };
        compare_average(rest({{2, 2}, {2, 2}, {0, 0}}), {2, 3, 20, 38});
        compare_average(rest({{3, 3}, {1, 1}, {1, 1}}), {2, 3, 11, 35});
        compare_average(rest({{3, 3}, {2, 2}, {1, 1}}), {2, 3, 11, 35});
        compare_average(rest({{2, 5}, {3, 4}, {1, 2}}), {2, 3, 11, 35});
        compare_average(rest({{4}, {3}, {2}}), {2, 3, 35});
        compare_average(rest({{2, 3, 2}, {2, 2, 1}, {1, 1, 0}}), {2, 3, 6, 7, 19});
      }
    }
  }
}

TEST(AvgPool, AdaptiveBinsOfEveryKind) {
  Shape x{2, 3, 12, 20};
  for (std::int64_t rows : {1, 4, 5, 12, 15}) {
    for (std::int64_t columns : {1, 5, 7, 20, 33}) {
      Shape y{2, 3, rows, columns};
      compare("adaptive_avg_pool", Attrs::of(AdaptiveAvgPoolAttrs{{rows, columns}, {}}), {f32(x)});
      compare("adaptive_avg_pool_grad", Attrs::of(AdaptiveAvgPoolAttrs{{rows, columns}, x}), {f32(y)});
    }
  }
  compare("adaptive_avg_pool", Attrs::of(AdaptiveAvgPoolAttrs{{5}, {}}), {f32({3, 4, 33})});
  compare("adaptive_avg_pool", Attrs::of(AdaptiveAvgPoolAttrs{{2, 5, 4}, {}}), {f32({3, 4, 5, 6, 8})});
}

TEST(MaxPool, GradientChecksIndices) {
  std::vector<float> g(4, 1.0f);
  std::vector<std::int32_t> index = {0, 1, 16, 3};
  KernelRequest request =
      request_of("max_pool_grad", Attrs::of(MaxPoolGradAttrs{{1, 1, 4, 4}}), {f32({1, 1, 2, 2}), i32({1, 1, 2, 2})});
  EXPECT_THROW(run_kernel(tuned_backend(), request, {g.data(), index.data()}), UserError);
}

}  // namespace
}  // namespace aspen::testing
