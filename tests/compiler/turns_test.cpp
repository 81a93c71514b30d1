// Sharded and phased execution: one device computes at a time, whatever the data would allow.
#include "aspen/runtime/task_order.h"
#include "harness.h"

namespace aspen::testing {
namespace {

// Three devices in a row: the first could begin a micro-batch while the last is at work on the one before.
const char* const kChain =
    "graph @main(%x: f32[2]) {\n"
    "  %0: f32[2] = exp(%x)\n"
    "  %1: f32[2] = neg(%0) device 1 stage 1 phase 1\n"
    "  %2: f32[2] = exp(%1) device 2 stage 2 phase 2\n"
    "  return y: %2\n"
    "}\n";

// Two devices that do not need each other.
const char* const kTowers =
    "graph @main(%x: f32[2]) {\n"
    "  %0: f32[2] = exp(%x)\n"
    "  %1: f32[2] = neg(%x) device 1 stage 1 phase 1\n"
    "  %2: f32[2] = add(%0, %1) device 2 stage 2 phase 2\n"
    "  return y: %2\n"
    "}\n";

bool takes_turns(const char* text, Execution execution) {
  CompileOptions options{.device_iterations = 4, .execution = execution};
  return take_turns(Session(text, options).program().step);
}

TEST(Turns, AreTakenWhereLanesHoldOneMicroBatch) {
  for (const char* text : {kChain, kTowers}) {
    EXPECT_TRUE(takes_turns(text, Execution::kSharded));
    EXPECT_TRUE(takes_turns(text, Execution::kPhased));
    EXPECT_FALSE(takes_turns(text, Execution::kPipelined));
  }
}

}  // namespace
}  // namespace aspen::testing
