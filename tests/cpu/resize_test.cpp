#include "aspen/ops/resize/resize.h"

#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

// Forward and gradient; axes are stretched as torch does it.
void compare_resize(const Shape& x, const std::vector<std::int64_t>& size, const std::string& mode,
                    bool align_corners = false) {
  ResizeAttrs attrs{mode, size, {}, align_corners};
  Shape y{x[0], x[1]};
  for (std::size_t i = 0; i < size.size(); ++i) {
    std::int64_t in = x[i + 2], out = size[i];
    bool corners = align_corners && out > 1;
    attrs.scales.push_back(corners ? static_cast<double>(in - 1) / static_cast<double>(out - 1)
                                   : static_cast<double>(in) / static_cast<double>(out));
    y.push_back(out);
  }
  compare("resize", Attrs::of(attrs), {f32(x)});
  attrs.shape = x;
  compare("resize_grad", Attrs::of(attrs), {f32(y)}, {.tolerance = 1e-5});
}

TEST(Resize, UpDownAndByFractions) {
  for (const char* mode : {"nearest", "nearest_exact", "linear", "cubic"}) {
    for (std::int64_t out : {1, 2, 5, 17, 34, 40}) {
      compare_resize({2, 3, 17, 19}, {out, 2 * out}, mode);
      compare_resize({2, 3, 17, 19}, {40, out}, mode);
      compare_resize({1, 2, 1, 19}, {out, 19}, mode);
    }
  }
  compare_resize({2, 3, 9, 33}, {17, 65}, "linear", true);
  compare_resize({2, 3, 9, 33}, {5, 3}, "cubic", true);
}

TEST(Resize, OneAndThreeAxes) {
  for (const char* mode : {"nearest", "linear"}) {
    for (std::int64_t out : {1, 7, 20}) {
      compare_resize({2, 3, 11}, {out}, mode);
      compare_resize({2, 2, 5, 7, 11}, {out, 14, 9}, mode);
      compare_resize({1, 2, 9, 3, 4}, {4, out, 8}, mode);
    }
  }
}

TEST(Resize, HalfGoesThroughFloat) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    ResizeAttrs attrs{mode, {14, 9}, {0.5, 2.0}};
    compare("resize", Attrs::of(attrs), {f16({2, 3, 7, 18})}, {.tolerance = 1e-3});
    attrs.shape = {2, 3, 7, 18};
    compare("resize_grad", Attrs::of(attrs), {f16({2, 3, 14, 9})}, {.tolerance = 1e-3});
  }
}

// An infinity reaches what is made of it, and nothing else.
TEST(Resize, InfinitiesStayWhereTheyAre) {
  std::vector<float> x(7 * 9, 1.0f);
  x[0] = x[30] = std::numeric_limits<float>::infinity();
  for (const char* mode : {"nearest", "linear"}) {
    KernelRequest request =
        request_of("resize", Attrs::of(ResizeAttrs{mode, {14, 18}, {0.5, 0.5}}), {f32({1, 1, 7, 9})});
    auto expected = run_kernel(*make_reference_backend(), request, {x.data()});
    auto actual = run_kernel(tuned_backend(), request, {x.data()});
    expect_close(request.outputs[0], expected[0], actual[0], 2e-6, to_string(request));
  }
}

}  // namespace
}  // namespace aspen::testing
