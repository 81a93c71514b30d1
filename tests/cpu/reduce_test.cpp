#include "aspen/ops/reduce/reduce.h"

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
};

TEST(Reduce, EveryPatternOfAxes) {
  for (const Axes& c : kAxes) {
    for (bool keep : {false, true}) {
      Attrs attrs = Attrs::of(ReduceAttrs{c.axes, keep});
      compare("reduce_sum", attrs, {f32(c.shape)});
      compare("reduce_max", attrs, {f32(c.shape)}, {.tolerance = 0});
      compare("reduce_min", attrs, {f32(c.shape)}, {.tolerance = 0});
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
    for (Shape shape : {Shape{1, 100}, Shape{100, 1}}) {
      KernelRequest request = request_of(op, Attrs::of(ReduceAttrs{{0, 1}, false}), {f32(shape)});
      EXPECT_TRUE(std::isnan(*run_kernel(tuned_backend(), request, {x.data()})[0].as<float>())) << op;
    }
  }
}

TEST(Normalize, EveryPatternOfAxes) {
  for (const Axes& c : kAxes) {
    Attrs attrs = Attrs::of(NormalizeAttrs{c.axes, 1e-5});
    compare("normalize", attrs, {f32(c.shape)}, {.low = 2, .high = 4});
    Shape statistics = c.shape;
    for (auto axis : c.axes) statistics[axis] = 1;
    compare("normalize_grad", attrs, {f32(c.shape), f32(statistics), f32(c.shape)});
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
