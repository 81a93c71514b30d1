// cross_entropy and its gradient beside the reference, and with numbers that are none.
#include <cmath>
#include <limits>

#include "aspen/ops/nll/nll.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

// Lines of a vector and less, of several blocks; few and many columns.
const std::vector<Shape> kShapes{{70, 11}, {3, 4099}, {1, 2048}, {3, 5, 40}, {2, 7, 1100}, {4, 6, 5, 7}};

TensorType targets_of(const Shape& x) {
  Shape shape = x;
  shape.erase(shape.begin() + 1);
  return i32(shape);
}

TEST(CrossEntropy, MatchesTheReference) {
  for (const Shape& x : kShapes) {
    const TensorType target = targets_of(x), each = f32(target.shape);
    for (const char* reduction : {"none", "mean", "sum"}) {
      const TensorType loss = reduction == std::string("none") ? each : f32({});
      for (double smoothing : {0.0, 0.3}) {
        const Attrs attrs = Attrs::of(CrossEntropyAttrs{{3, reduction}, smoothing});
        CompareOptions options{.tolerance = 1e-5, .low = 0.5, .high = 2, .top = x[1]};
        compare("cross_entropy", attrs, {f32(x), target, f32({x[1]})}, options);
        compare("cross_entropy_grad", attrs, {f32(x), target, f32({x[1]}), f32({}), loss, each, each}, options);
        options.low = -30, options.high = 30;
        compare("cross_entropy", attrs, {f32(x), target, std::nullopt}, options);
        options.low = -20, options.high = -0.5;  // log probabilities
        const InputTypes without{f32(x), target, std::nullopt, f32({}), loss, std::nullopt, std::nullopt};
        compare("cross_entropy_grad", attrs, without, options);
      }
    }
  }
}

struct Results {
  std::vector<float> losses, dx;
};

// The losses one by one and the gradient of their sum.
Results run(const Shape& shape, std::vector<float> x, std::vector<std::int32_t> target) {
  const TensorType targets = targets_of(shape), each = f32(targets.shape);
  const Attrs attrs = Attrs::of(CrossEntropyAttrs{{-100, "none"}, 0});
  const KernelRequest forward = request_of("cross_entropy", attrs, {f32(shape), targets, std::nullopt});
  auto y = run_kernel(tuned_backend(), forward, {x.data(), target.data(), nullptr});
  const KernelRequest backward =
      request_of("cross_entropy_grad", attrs, {f32(shape), targets, std::nullopt, f32({}), each, each, each});
  std::vector<float> g(target.size(), 1.0f);
  auto dx = run_kernel(tuned_backend(), backward,
                       {x.data(), target.data(), nullptr, y[1].get(), g.data(), y[2].get(), y[3].get()});
  return {{y[0].as<float>(), y[0].as<float>() + target.size()}, {dx[0].as<float>(), dx[0].as<float>() + x.size()}};
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Classes that are ruled out come first, and fill whole blocks.
TEST(CrossEntropy, TakesClassesThatAreRuledOut) {
  for (const Shape& shape : {Shape{1, 5000}, Shape{1, 5000, 1}, Shape{1, 500, 3}}) {
    const std::int64_t classes = shape[1], lines = shape.size() == 3 ? shape[2] : 1;
    std::vector<float> x(static_cast<std::size_t>(classes * lines), -kInfinity);
    std::fill(x.end() - 4 * lines, x.end(), 100.0f);
    const Results results = run(shape, x, std::vector<std::int32_t>(static_cast<std::size_t>(lines), classes - 1));
    for (float loss : results.losses) EXPECT_NEAR(loss, std::log(4.0), 1e-5);
    EXPECT_EQ(results.dx[0], 0.0f);
    EXPECT_NEAR(results.dx.back(), -0.75f, 1e-5);
    EXPECT_NEAR(results.dx[static_cast<std::size_t>((classes - 2) * lines)], 0.25f, 1e-5);
  }
}

TEST(CrossEntropy, OfNoClassAtAllHasNoNumber) {
  const Results results = run({1, 40}, std::vector<float>(40, -kInfinity), {7});
  EXPECT_TRUE(std::isnan(results.losses[0]));
  EXPECT_TRUE(std::isnan(results.dx[3]));
}

TEST(CrossEntropy, NotANumberIsNotLost) {
  for (std::size_t place : {0, 1500, 3999}) {
    std::vector<float> x(4000, -kInfinity);
    x[2000] = 1, x[place] = std::nanf("");
    const Results results = run({1, 4000}, x, {2000});
    EXPECT_TRUE(std::isnan(results.losses[0])) << place;
    EXPECT_TRUE(std::isnan(results.dx[2000])) << place;
  }
}

TEST(CrossEntropy, WhatIsIgnoredIsNotLookedAt) {
  for (const Shape& shape : {Shape{2, 40}, Shape{1, 40, 2}}) {
    std::vector<float> x(80, 1.0f);
    for (std::size_t i = 0; i < 40; ++i) x[shape.size() == 2 ? i : 2 * i] = std::nanf("");
    const Results results = run(shape, x, {-100, 3});
    EXPECT_EQ(results.losses[0], 0.0f);
    EXPECT_NEAR(results.losses[1], std::log(40.0), 1e-5);
    for (std::size_t i = 0; i < 80; ++i) EXPECT_EQ(results.dx[i] == 0.0f, std::isnan(x[i])) << i;
  }
}

TEST(CrossEntropy, TheFirstWrongTargetIsTold) {
  std::vector<float> x(60000 * 3, 1.0f);
  std::vector<std::int32_t> target(60000, 2);
  target[59000] = 3, target[41000] = -1;
  const KernelRequest request =
      request_of("cross_entropy", Attrs::of(CrossEntropyAttrs{}), {f32({60000, 3}), i32({60000}), std::nullopt});
  try {
    run_kernel(tuned_backend(), request, {x.data(), target.data(), nullptr});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("target -1 of sample 41000 "), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace aspen::testing
