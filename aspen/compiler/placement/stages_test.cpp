#include "aspen/compiler/placement/stages.h"

#include <gtest/gtest.h>

#include "aspen/base/error.h"
#include "aspen/compiler/ir/parser.h"

namespace aspen {
namespace {

TEST(Stages, MergesConsecutiveStagesOnOneDevice) {
  auto graph = parse_graph(R"(graph @main(%x: f32[2]) {
    %0: f32[2] = neg(%x)
    %1: f32[2] = neg(%0) stage 1
    %2: f32[2] = neg(%1) device 1 stage 2
    %3: f32[2] = neg(%2) stage 5
    %4: f32[2] = neg(%3) device 1 stage 2 backward
    return y: %4
  })");
  Stages stages(*graph);
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages.device(0), 0);
  EXPECT_EQ(stages.device(1), 1);
  EXPECT_EQ(stages.device(2), 0);
  EXPECT_EQ(stages.index_of({.stage = 1}), 0u);
  EXPECT_EQ(stages.index_of({.device = 1, .stage = 2}), 1u);
  EXPECT_EQ(stages.index_of({.stage = 5}), 2u);
  EXPECT_EQ(devices_in_use(*graph), (std::vector<std::int64_t>{0, 1}));
}

TEST(Stages, RejectsAStageOnTwoDevices) {
  auto graph = parse_graph(R"(graph @main(%x: f32[2]) {
    %0: f32[2] = neg(%x) at "model.py:3" stage 1
    %1: f32[2] = exp(%0) at "model.py:4" device 2 stage 1
    return y: %1
  })");
  try {
    Stages stages(*graph);
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "pipeline stage 1 has ops on two devices: neg at model.py:3 on device 0 and exp at model.py:4 on "
                 "device 2. A stage runs on one device; give the blocks on the second device a stage of their own.");
  }
}

}  // namespace
}  // namespace aspen
