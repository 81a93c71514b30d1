#include "aspen/ops/sort/sort.h"

#include <gtest/gtest.h>

#include <cmath>

#include "aspen/backends/reference/reference_backend.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

using Numbers = std::vector<double>;

std::vector<HostTensor> sorted(const Numbers& x, bool descending) {
  HostTensor input({DType::kF32, {static_cast<std::int64_t>(x.size())}}, x);
  return run_op(*make_reference_backend(), "sort", {input}, Attrs::of(SortAttrs{0, descending}));
}

TEST(Sort, NaNIsLargest) {
  EXPECT_EQ(sorted({3, std::nan(""), 5, 1}, true)[1].numbers(), (Numbers{1, 2, 0, 3}));
  EXPECT_EQ(sorted({3, std::nan(""), 5, 1}, false)[1].numbers(), (Numbers{3, 0, 2, 1}));
}

TEST(Sort, EqualElementsKeepTheirOrder) {
  EXPECT_EQ(sorted({2, 1, 2, 1, 2}, false)[1].numbers(), (Numbers{1, 3, 0, 2, 4}));
  EXPECT_EQ(sorted({2, 1, 2, 1, 2}, true)[1].numbers(), (Numbers{0, 2, 4, 1, 3}));
}

}  // namespace
}  // namespace aspen::testing
