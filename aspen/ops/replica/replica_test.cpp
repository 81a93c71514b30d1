#include "aspen/ops/replica/replica.h"

#include <gtest/gtest.h>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/base/error.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

using Numbers = std::vector<double>;

HostTensor run(const char* op, const std::vector<HostTensor>& inputs, std::uint64_t replica, std::int64_t replicas) {
  StepContext step{.replica = replica, .num_replicas = static_cast<std::uint64_t>(replicas)};
  return run_op(*make_reference_backend(), op, inputs, Attrs::of(ReplicaAttrs{replicas}), step)[0];
}

TEST(Replica, AShardOfOneIsTheWhole) {
  HostTensor x = random_tensor({DType::kF32, {3, 5}}, {}, 1);
  HostTensor shard = run("replica_slice", {x}, 0, 1);
  EXPECT_EQ(shard.type().shape, (Shape{15}));
  EXPECT_EQ(shard.numbers(), x.numbers());
  EXPECT_EQ(run("replica_write", {HostTensor(x.type()), shard}, 0, 1), x);
}

TEST(Replica, CutsInMemoryOrderAndFillsWithZeros) {
  HostTensor x({DType::kF16, {3, 3}}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(run("replica_slice", {x}, 0, 2).numbers(), (Numbers{1, 2, 3, 4, 5}));
  EXPECT_EQ(run("replica_slice", {x}, 1, 2).numbers(), (Numbers{6, 7, 8, 9, 0}));
  EXPECT_EQ(run("replica_slice", {x}, 2, 4).numbers(), (Numbers{7, 8, 9}));
  EXPECT_EQ(run("replica_slice", {x}, 3, 4).numbers(), (Numbers{0, 0, 0}));  // nothing is left for the last
}

TEST(Replica, WritesItsOwnShardOnly) {
  HostTensor x({DType::kI32, {5}}, {1, 2, 3, 4, 5}), shard({DType::kI32, {3}}, {10, 20, 30});
  EXPECT_EQ(run("replica_write", {x, shard}, 0, 2).numbers(), (Numbers{10, 20, 30, 4, 5}));
  EXPECT_EQ(run("replica_write", {x, shard}, 1, 2).numbers(), (Numbers{1, 2, 3, 10, 20}));
}

TEST(Replica, RejectsAShardOfAnotherSize) {
  HostTensor x({DType::kF32, {5}}), shard({DType::kF32, {2}});
  EXPECT_THROW(run("replica_write", {x, shard}, 0, 2), UserError);
  EXPECT_THROW(run("replica_slice", {x}, 0, 0), UserError);
  EXPECT_THROW(run("replica_add", {shard, x}, 0, 0), UserError);
}

}  // namespace
}  // namespace aspen::testing
