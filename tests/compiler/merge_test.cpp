// Attributes tell apart what differs, so that looking for equal ops takes one comparison each.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "aspen/compiler/passes/merge_common.h"
#include "aspen/ops/build.h"
#include "aspen/ops/host_call/host_call.h"
#include "aspen/ops/source/source.h"

namespace aspen {
namespace {

constexpr std::int32_t kMany = 5000;

Value* table(Builder& b, std::int32_t number) { return build::constant_i32(b, {2}, {7, number}); }

TEST(Attrs, HashSeesTheBytesOfConstants) {
  Graph graph;
  Builder b(graph);
  std::set<std::size_t> hashes;
  for (std::int32_t i = 0; i < kMany; ++i) hashes.insert(table(b, i)->producer()->attrs().hash());
  EXPECT_EQ(hashes.size(), kMany);
}

TEST(Attrs, EqualAttributesHaveEqualHashes) {
  Graph graph;
  Builder b(graph);
  Attrs a = table(b, 3)->producer()->attrs(), c = table(b, 3)->producer()->attrs();
  EXPECT_EQ(a, c);
  EXPECT_EQ(a.hash(), c.hash());
  EXPECT_NE(a, table(b, 4)->producer()->attrs());
  Attrs one = Attrs::of(FullAttrs{DType::kF32, {2}, 1}), two = Attrs::of(FullAttrs{DType::kF32, {2}, 2});
  EXPECT_NE(one, two);
  EXPECT_NE(one.hash(), two.hash());
}

TEST(MergeCommon, KeepsOneOfEachOfManyConstants) {
  Graph graph;
  Builder b(graph);
  for (int copy = 0; copy < 2; ++copy) {
    for (std::int32_t i = 0; i < kMany; ++i) graph.add_output("y", table(b, i));
  }
  CompileOptions options;
  merge_common(graph, {.options = options});
  EXPECT_EQ(graph.ops().size(), static_cast<std::size_t>(kMany));
  for (std::int32_t i = 0; i < kMany; ++i) {
    const Value* value = graph.outputs()[i].value;
    EXPECT_EQ(value, graph.outputs()[kMany + i].value);
    std::int32_t number = 0;
    std::memcpy(&number, value->producer()->attrs<ConstantAttrs>().data.bytes->data() + 4, 4);
    EXPECT_EQ(number, i);
  }
}

}  // namespace
}  // namespace aspen
