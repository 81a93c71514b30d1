#include "aspen/ops/remap/places.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

AxisPlaces rolled(std::int64_t size, std::int64_t shift) {
  AxisPlaces places;
  for (std::int64_t i = 0; i < size; ++i) places.push_back((i + shift) % size);
  return places;
}

AxisPlaces reflected(std::int64_t size, std::int64_t border) {
  AxisPlaces places;
  for (std::int64_t i = -border; i < size + border; ++i) {
    places.push_back(i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i);
  }
  return places;
}

// Windows of three, all first elements before all second ones, with zeros around.
AxisPlaces windows(std::int64_t size, std::int64_t stride) {
  AxisPlaces places;
  for (std::int64_t k = -1; k < 2; ++k) {
    for (std::int64_t o = 0; o < size; o += stride)
      places.push_back(o + k < size ? std::max<std::int64_t>(o + k, -1) : -1);
  }
  return places;
}

// Forward in several types, and the gradient.
void compare_remap(const Shape& x, const std::vector<std::pair<std::int64_t, AxisPlaces>>& axes) {
  RemapAttrs attrs;
  for (const auto& [axis, places] : axes) add_runs(attrs, axis, places);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kU8, DType::kI32, DType::kF64}) {
    compare("remap", Attrs::of(attrs), {TensorType{dtype, x}}, {.tolerance = 0, .top = 100});
  }
  TensorType y = request_of("remap", Attrs::of(attrs), {f32(x)}).outputs[0];
  attrs.shape = x;
  compare("remap_grad", Attrs::of(attrs), {y});
}

TEST(Remap, Rolls) {
  compare_remap({5, 300}, {{1, rolled(300, 7)}});
  compare_remap({300, 5}, {{0, rolled(300, 299)}});
  compare_remap({4, 9, 11, 6}, {{1, rolled(9, 2)}, {2, rolled(11, 5)}});
  compare_remap({9, 400}, {{0, rolled(9, 2)}});
  compare_remap({3, 4, 300, 2}, {{1, rolled(4, 1)}, {2, rolled(300, 40)}});
}

TEST(Remap, BordersAreReflected) {
  for (std::int64_t width : {5, 17, 40, 300}) {
    compare_remap({2, 3, 9, width}, {{2, reflected(9, 3)}, {3, reflected(width, 4)}});
    compare_remap({3, width, 2}, {{1, reflected(width, 2)}});
  }
  compare_remap({2, 3, 4, 5, 6}, {{2, reflected(4, 1)}, {3, reflected(5, 2)}, {4, reflected(6, 3)}});
}

TEST(Remap, WindowsSideBySide) {
  for (std::int64_t stride : {1, 2, 3}) {
    for (std::int64_t width : {5, 19, 100}) {
      compare_remap({2, 3, 9, width}, {{2, windows(9, stride)}, {3, windows(width, stride)}});
    }
  }
}

TEST(Remap, ElementsInAnyOrder) {
  compare_remap({3, 9}, {{1, {8, 8, 2, -1, 0, 1, 2, 5, 3, 1, -1, -1, 4}}});
  compare_remap({9, 3}, {{0, {8, 8, 2, -1, 0, 1, 2, 5, 3, 1, -1, -1, 4}}});
  compare_remap({3, 9}, {{1, {-1, -1}}});
  compare("remap", Attrs::of(RemapAttrs{{0, 0, 1, 0}, {}}), {f32({3, 9})});
}

// The vector loops decline; the reference takes over.
TEST(Remap, AxesFarApart) {
  RemapAttrs attrs;
  for (std::int64_t axis : {0, 2, 4}) add_runs(attrs, axis, rolled(3, 1));
  attrs.shape = {3, 3, 3, 3, 3};
  KernelRequest request = request_of("remap_grad", Attrs::of(attrs), {f32(attrs.shape)});
  std::vector<float> g(243);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(i);
  auto expected = run_kernel(*make_reference_backend(), request, {g.data()});
  std::string why;
  EXPECT_FALSE(tuned_backend().takes(request, why));
  auto actual = run_kernel(*make_cpu_backend(), request, {g.data()});
  expect_close(request.outputs[0], expected[0], actual[0], 0, to_string(request));
}

}  // namespace
}  // namespace aspen::testing
