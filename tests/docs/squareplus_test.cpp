// The op of docs/add-an-op.md, beside the conformance tests of this binary, which run its examples like those of any
// op.
#include "aspen/ops/squareplus/squareplus.h"

#include "tests/cpu/compare.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

TEST(Squareplus, LongRowsWithARemainder) {
  for (double width : {0.5, 4.0}) {
    Attrs attrs = Attrs::of(SquareplusAttrs{width});
    compare("squareplus", attrs, {f32({1003})}, {.tolerance = 1e-6, .low = -9, .high = 9});
    compare("squareplus_grad", attrs, {f32({1003}), f32({1003})}, {.tolerance = 1e-6, .low = -9, .high = 9});
    compare("squareplus", attrs, {f16({1003})}, {.tolerance = 1e-3, .low = -9, .high = 9});
  }
}

TEST(Squareplus, IsTheFormula) {
  Attrs attrs = Attrs::of(SquareplusAttrs{4});
  auto y = run_op(*make_reference_backend(), "squareplus", {HostTensor(f32({3}), {-2, 0, 2})}, attrs);
  EXPECT_NEAR(y[0].at(0), std::sqrt(2) - 1, 1e-6);
  EXPECT_NEAR(y[0].at(1), 1, 1e-6);
  EXPECT_NEAR(y[0].at(2), std::sqrt(2) + 1, 1e-6);
}

TEST(Squareplus, RejectsAWidthThatIsNotPositive) {
  Graph graph;
  Value* x = graph.add_input("x", f32({3}));
  try {
    Builder(graph).make("squareplus", {x}, SquareplusAttrs{0});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "[squareplus] width is 0; expected a positive number.");
  }
}

}  // namespace
}  // namespace aspen::testing
