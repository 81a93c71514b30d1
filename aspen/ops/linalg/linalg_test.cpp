#include "aspen/ops/linalg/linalg.h"

#include <gtest/gtest.h>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

// u diag(s) v^T and the like: (m, k) (k) (n, k) -> (m, n)
double composed(const HostTensor& u, const HostTensor& s, const HostTensor& v, std::int64_t i, std::int64_t j) {
  double sum = 0;
  const std::int64_t k = s.size();
  for (std::int64_t l = 0; l < k; ++l) sum += u.at(i * k + l) * s.at(l) * v.at(j * k + l);
  return sum;
}

TEST(Linalg, LuExchangesRowsForTheLargestPivot) {
  auto found = apply("lu", {f32({2, 2}, {1, 2, 4, 3})});
  EXPECT_EQ(found[0], f32({2, 2}, {4, 3, 0.25, 1.25}));
  EXPECT_EQ(found[1], i32({2}, {2, 2}));
  EXPECT_EQ(found[2], i32({}, {0}));
  EXPECT_EQ(apply("pivot_order", {i32({2}, {3, 3})}, PivotOrderAttrs{4})[0], i32({4}, {2, 0, 1, 3}));
}

TEST(Linalg, LuSaysWhichPivotIsZero) { EXPECT_EQ(apply("lu", {f32({2, 2}, {1, 2, 2, 4})})[2], i32({}, {2})); }

TEST(Linalg, CholeskySaysWhichMinorIsNotPositive) {
  auto found = apply("cholesky", {f32({2, 2, 2}, {4, 9, 2, 5, 1, 9, 2, 1})}, CholeskyAttrs{});
  EXPECT_EQ(found[1], i32({2}, {0, 2}));
  for (std::int64_t i : {0, 1, 2, 3}) EXPECT_EQ(found[0].at(i), f32({2, 2}, {2, 0, 1, 2}).at(i));
}

TEST(Linalg, CheckFactoredNamesTheMatrix) {
  CheckFactoredAttrs attrs{"aten::linalg_inv_ex", "linalg.inv", "The matrix is singular at row {}."};
  EXPECT_TRUE(apply("check_factored", {i32({2}, {0, 0})}, attrs).empty());
  EXPECT_EQ(user_error([&] {
              apply("check_factored", {i32({2}, {0, 3})}, attrs);
            }),
            "[aten::linalg_inv_ex] linalg.inv: (Batch element 1): The matrix is singular at row 3.");
}

TEST(Linalg, PivotsOutOfRangeAreAnError) {
  EXPECT_EQ(user_error([] { apply("pivot_order", {i32({1}, {4})}, PivotOrderAttrs{3}); }),
            "[lu] pivot 4 of step 1 is out of range for 3 rows; expected 1 to 3.");
}

TEST(Linalg, SvdOfWideAndSingularMatricesComposes) {
  HostTensor wide = f32({2, 3}, {1, 2, 3, 2, 4, 6});  // of rank 1
  auto found = apply("svd", {wide});
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      EXPECT_NEAR(composed(found[0], found[1], found[2], i, j), wide.at(i * 3 + j), 1e-5);
    }
  }
  EXPECT_NEAR(found[1].at(1), 0, 1e-6);
  // The second column stands on the first, though there is nothing to it.
  EXPECT_NEAR(found[0].at(0) * found[0].at(1) + found[0].at(2) * found[0].at(3), 0, 1e-6);
  EXPECT_NEAR(found[0].at(1) * found[0].at(1) + found[0].at(3) * found[0].at(3), 1, 1e-6);
}

TEST(Linalg, EigenvaluesAscend) {
  auto found = apply("symmetric_eigen", {f32({2, 2}, {2, 9, 1, 2})});  // above the diagonal nothing is read
  EXPECT_NEAR(found[0].at(0), 1, 1e-6);
  EXPECT_NEAR(found[0].at(1), 3, 1e-6);
}

TEST(Linalg, RejectsWhatDoesNotFit) {
  EXPECT_EQ(user_error([] {
              apply("lu", {i32({2, 2}, {1, 2, 3, 4})});
            }),
            "[lu] takes floating point matrices, of rank 2 and more, not i32[2, 2].");
  EXPECT_EQ(user_error([] {
              apply("cholesky", {f32({1, 2}, {1, 2})}, CholeskyAttrs{});
            }),
            "[cholesky] takes square matrices, not f32[1, 2].");
}

}  // namespace
}  // namespace aspen::testing
