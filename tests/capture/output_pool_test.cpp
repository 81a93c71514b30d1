#include "poptorch/model/output_pool.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

namespace poptorch {
namespace {

constexpr std::int64_t kLarge = 1 << 20;  // floats

TEST(OutputPool, KeepsWhatIsDroppedUpToItsLimit) {
  OutputPool pool;
  pool.keep_at_most(10 * kLarge);
  at::Tensor a = pool.empty({kLarge}, at::kFloat), b = pool.empty({kLarge}, at::kFloat);
  const at::Tensor c = pool.empty({kLarge}, at::kFloat);
  const void* address = a.data_ptr();
  EXPECT_EQ(pool.kept_bytes(), 0u);
  a.reset();
  EXPECT_EQ(pool.kept_bytes(), 4u * kLarge);
  a = pool.empty({2, kLarge / 2}, at::kFloat);  // the same bytes
  EXPECT_EQ(a.data_ptr(), address);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  a.reset();
  b.reset();
  EXPECT_EQ(pool.kept_bytes(), 8u * kLarge);
  pool.keep_at_most(4 * kLarge);
  EXPECT_EQ(pool.kept_bytes(), 4u * kLarge);
}

TEST(OutputPool, LeavesSmallPiecesToTheSystem) {
  OutputPool pool;
  pool.keep_at_most(kLarge);
  pool.empty({16}, at::kFloat).reset();
  pool.empty({}, at::kFloat).reset();
  pool.empty({0, 4}, at::kFloat).reset();
  EXPECT_EQ(pool.kept_bytes(), 0u);
}

TEST(OutputPool, ResultsOutliveIt) {
  at::Tensor result;
  {
    OutputPool pool;
    pool.keep_at_most(100 * kLarge);
    result = pool.empty({kLarge}, at::kInt);
    pool.empty({kLarge}, at::kInt).reset();
  }
  result.fill_(3);
  EXPECT_TRUE(result.equal(at::full({kLarge}, 3, at::kInt)));
}

}  // namespace
}  // namespace poptorch
