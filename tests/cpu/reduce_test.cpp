#include "aspen/ops/reduce/reduce.h"

#include "aspen/ops/nll/nll.h"
#include "aspen/ops/normalize/normalize.h"
#include "aspen/ops/softmax/softmax.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

struct Axes {
  Shape shape;
  std::vector<std::int64_t> axes;
};

const std::vector<Axes> kAxes = {
    {{7, 300}, {1}},       {{7, 300}, {0}},         {{16, 12, 9, 9}, {0, 2, 3}},
    {{16, 12, 9, 9}, {1}}, {{5, 4, 3, 70}, {0, 2}}, {{3, 5, 7}, {0, 1, 2}},
    {{20000}, {0}},        {{1000, 3}, {0}},        {{48, 324}, {1}},
    {{2, 3, 1, 5}, {2}},   {{600, 65}, {0}},        {{4, 6, 5}, {1, 2}},
    {{41, 100}, {1}},      {{70, 21}, {1}},         {{35, 9000}, {1}},
};

// Rows and columns shorter than a vector.
const std::vector<Axes> kNarrowAxes = {{{700, 3}, {1}}, {{5, 700, 3}, {1}}, {{5, 4, 3}, {1}}, {{100, 7}, {1}}};

std::vector<Axes> axes_of_every_width() {
  std::vector<Axes> all = kAxes;
  all.insert(all.end(), kNarrowAxes.begin(), kNarrowAxes.end());
  return all;
}

TEST(Reduce, EveryPatternOfAxes) {
  for (const Axes& c : axes_of_every_width()) {
    for (bool keep : {false, true}) {
      Attrs attrs = Attrs::of(ReduceAttrs{c.axes, keep});
      compare("reduce_sum", attrs, {f32(c.shape)});
      compare("reduce_max", attrs, {f32(c.shape)}, {.tolerance = 0});
      compare("reduce_min", attrs, {f32(c.shape)}, {.tolerance = 0});
    }
  }
}

TEST(Reduce, IntegersBoolsAndProducts) {
  for (const Axes& c : axes_of_every_width()) {
    Attrs attrs = Attrs::of(ReduceAttrs{c.axes, false});
    for (const char* op : {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"}) {
      compare(op, attrs, {i32(c.shape)}, {.tolerance = 0, .top = 100, .bottom = -100});
    }
    for (const char* op : {"reduce_max", "reduce_min"}) {
      compare(op, attrs, {TensorType{DType::kBool, c.shape}});
      compare(op, attrs, {i32(c.shape)}, {.tolerance = 0, .top = -5, .bottom = -100});
    }
    compare("reduce_prod", attrs, {f32(c.shape)}, {.tolerance = 1e-5, .low = 0.999, .high = 1.001});
  }
}

TEST(Reduce, GradientsOfProducts) {
  for (const Axes& c : axes_of_every_width()) {
    Shape gradient = c.shape;
    for (auto axis : c.axes) gradient[axis] = 1;
    compare("reduce_prod_grad", Attrs::of(ReduceAttrs{c.axes, false}), {f32(c.shape), f32(gradient)},
            {.tolerance = 1e-6, .low = 0.999, .high = 1.001});
  }
}

// Without zeros, with one and with two, in rows and in columns.
TEST(Reduce, GradientsOfProductsWithZeros) {
  constexpr std::int64_t kLines = 3, kSize = 37;
  auto reference = make_reference_backend();
  for (bool by_rows : {true, false}) {
    const Shape shape = by_rows ? Shape{kLines, kSize} : Shape{kSize, kLines};
    const std::int64_t line_step = by_rows ? kSize : 1, step = by_rows ? 1 : kLines;
    std::vector<float> x(kLines * kSize, 1.25f), g{2, 3, 4};
    x[line_step + 5 * step] = x[2 * line_step + 7 * step] = x[2 * line_step + 30 * step] = 0;
    KernelRequest request = request_of("reduce_prod_grad", Attrs::of(ReduceAttrs{{by_rows ? 1 : 0}, false}),
                                       {f32(shape), f32(by_rows ? Shape{kLines, 1} : Shape{1, kLines})});
    auto expected = run_kernel(*reference, request, {x.data(), g.data()});
    auto actual = run_kernel(tuned_backend(), request, {x.data(), g.data()});
    expect_close(request.outputs[0], expected[0], actual[0], 1e-6, to_string(request));
    EXPECT_GT(actual[0].as<float>()[line_step + 5 * step], 1000);
    EXPECT_EQ(actual[0].as<float>()[2 * line_step + 7 * step], 0);
  }
}

TEST(ArgReduce, EveryAxisAndTies) {
  for (const Shape& shape : {Shape{5, 300}, Shape{300, 5}, Shape{7, 9, 33}, Shape{3, 64, 2}, Shape{1, 600, 1}}) {
    for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
      for (bool max : {true, false}) {
        Attrs attrs = Attrs::of(ArgReduceAttrs{axis, max, false});
        compare("argreduce", attrs, {f32(shape)});
        compare("argreduce", attrs, {f16(shape)});
        compare("argreduce", attrs, {i32(shape)}, {.top = 4, .bottom = -3});
      }
    }
  }
}

TEST(ArgReduce, TheFirstNanWins) {
  std::vector<float> x(300, 1.0f);
  x[7] = 2, x[137] = x[205] = std::numeric_limits<float>::quiet_NaN();
  for (bool max : {true, false}) {
    for (const Shape& shape : {Shape{1, 300}, Shape{300, 1}}) {
      std::int64_t axis = shape[0] == 1 ? 1 : 0;
      KernelRequest request = request_of("argreduce", Attrs::of(ArgReduceAttrs{axis, max, false}), {f32(shape)});
      EXPECT_EQ(*run_kernel(tuned_backend(), request, {x.data()})[0].as<std::int32_t>(), 137);
    }
    KernelRequest beside = request_of("argreduce", Attrs::of(ArgReduceAttrs{0, max, false}), {f32({150, 2})});
    auto index = run_kernel(tuned_backend(), beside, {x.data()});
    EXPECT_EQ(index[0].as<std::int32_t>()[1], 68);
  }
}

TEST(Scan, EveryAxisAndDirection) {
  for (const Shape& shape : {Shape{5, 300}, Shape{19, 40}, Shape{300, 5}, Shape{7, 9, 333}, Shape{4, 1, 3}}) {
    for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
      for (bool reverse : {false, true}) {
        for (bool exclusive : {false, true}) {
          Attrs attrs = Attrs::of(ScanAttrs{axis, reverse, exclusive});
          compare("cumsum", attrs, {f32(shape)}, {.tolerance = 1e-7});
          compare("cumsum", attrs, {i32(shape)}, {.tolerance = 0, .top = 1 << 30, .bottom = -9});
        }
      }
      Attrs attrs = Attrs::of(ScanAttrs{axis, false, false});
      compare("cumprod", attrs, {f32(shape)}, {.tolerance = 1e-7, .low = 0.9, .high = 1.1});
      compare("cumprod", attrs, {i32(shape)}, {.tolerance = 0, .top = 9, .bottom = -9});
      compare("cumprod_grad", attrs, {f32(shape), f32(shape), f32(shape)}, {.low = 0.9, .high = 1.0});
    }
  }
}

TEST(Reduce, NoAxesCopies) {
  compare("reduce_sum", Attrs::of(ReduceAttrs{{}, false}), {f32({3, 40})}, {.tolerance = 0});
}

TEST(Reduce, NanWins) {
  std::vector<float> x(100, 1.0f);
  x[37] = std::numeric_limits<float>::quiet_NaN();
  for (const char* op : {"reduce_max", "reduce_min"}) {
    for (const Shape& shape : {Shape{1, 100}, Shape{100, 1}}) {
      KernelRequest request = request_of(op, Attrs::of(ReduceAttrs{{0, 1}, false}), {f32(shape)});
      EXPECT_TRUE(std::isnan(*run_kernel(tuned_backend(), request, {x.data()})[0].as<float>())) << op;
    }
  }
}

TEST(Reduce, NanWinsInItsRowAlone) {
  std::vector<float> x(40 * 37, 1.0f);
  for (std::size_t row = 0; row < 37; ++row) x[row * 37 + row] = std::numeric_limits<float>::quiet_NaN();
  for (const char* op : {"reduce_max", "reduce_min"}) {
    KernelRequest request = request_of(op, Attrs::of(ReduceAttrs{{1}, false}), {f32({40, 37})});
    auto y = run_kernel(tuned_backend(), request, {x.data()});
    for (std::size_t row = 0; row < 40; ++row) EXPECT_EQ(std::isnan(y[0].as<float>()[row]), row < 37) << op << row;
  }
}

TEST(Normalize, EveryPatternOfAxes) {
  for (const Axes& c : axes_of_every_width()) {
    Attrs attrs = Attrs::of(NormalizeAttrs{c.axes, 1e-5});
    compare("normalize", attrs, {f32(c.shape)}, {.low = 2, .high = 4});
    Shape statistics = c.shape;
    for (auto axis : c.axes) statistics[axis] = 1;
    compare("normalize_grad", attrs, {f32(c.shape), f32(statistics), f32(c.shape)});
  }
}

TEST(Nll, EveryReduction) {
  for (const char* reduction : {"none", "mean", "sum"}) {
    for (const Shape& x : {Shape{70, 11}, Shape{3, 5, 40}, Shape{4, 6, 5, 7}}) {
      Shape target = x;
      target.erase(target.begin() + 1);
      TensorType loss = f32(reduction == std::string("none") ? target : Shape{});
      CompareOptions options{.low = 0.5, .high = 2, .top = x[1]};
      Attrs attrs = Attrs::of(NllAttrs{3, reduction});
      for (bool weighted : {true, false}) {
        std::optional<TensorType> weight;
        if (weighted) weight = f32({x[1]});
        compare("nll", attrs, {f32(x), i32(target), weight}, options);
        compare("nll_grad", attrs, {i32(target), weight, f32({}), loss, f32(x)}, options);
      }
    }
  }
}

TEST(Nll, TheFirstWrongTargetIsTold) {
  std::vector<float> x(60000 * 3, 1.0f);
  std::vector<std::int32_t> target(60000, 2);
  target[59000] = 3, target[41000] = -1;
  KernelRequest request = request_of("nll", Attrs::of(NllAttrs{}), {f32({60000, 3}), i32({60000}), std::nullopt});
  try {
    run_kernel(tuned_backend(), request, {x.data(), target.data(), nullptr});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("target -1 of sample 41000 "), std::string::npos) << error.what();
  }
}

TEST(Softmax, AlongAnyAxis) {
  for (const char* op : {"softmax", "log_softmax"}) {
    for (const Axes& c : std::vector<Axes>{{{16, 10}, {1}}, {{3, 200}, {1}}, {{5, 7, 33}, {1}}, {{9, 4}, {0}}}) {
      Attrs attrs = Attrs::of(SoftmaxAttrs{c.axes[0]});
      compare(op, attrs, {f32(c.shape)}, {.low = -20, .high = 20});
      compare(std::string(op) + "_grad", attrs, {f32(c.shape), f32(c.shape)});
    }
  }
}

}  // namespace
}  // namespace aspen::testing
