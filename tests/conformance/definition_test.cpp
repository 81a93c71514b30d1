// Every op says what it is and shows itself at work.
#include <gtest/gtest.h>

#include <algorithm>

#include "aspen/compiler/ir/op_def.h"
#include "tests/conformance/exceptions.h"

namespace aspen::testing {
namespace {

TEST(Definition, EveryOpHasASummary) {
  for (const OpDef* op : op_registry().all()) EXPECT_FALSE(op->summary().empty()) << op->name();
}

TEST(Definition, EveryPortIsDocumented) {
  for (const OpDef* op : op_registry().all()) {
    for (const auto& ports : {op->input_ports(), op->output_ports()}) {
      for (const Port& port : ports) EXPECT_FALSE(port.doc.empty()) << op->name() << " " << port.name;
    }
  }
}

TEST(Definition, EveryOpHasAnExample) {
  for (const OpDef* op : op_registry().all()) {
    bool excused = std::any_of(std::begin(kNoExamples), std::end(kNoExamples),
                               [&](const NoExample& entry) { return entry.op == op->name(); });
    EXPECT_EQ(op->examples().empty(), excused)
        << op->name() << (excused ? " has examples: take it off the list of exceptions" : " has no example");
  }
}

TEST(Definition, ExceptionsNameExistingPorts) {
  for (const NoGradient& entry : kNoGradients) {
    const OpDef* op = op_registry().try_find(entry.op);
    ASSERT_NE(op, nullptr) << entry.op;
    auto is_named = [&](const Port& port) { return port.name == entry.port; };
    const auto& inputs = op->input_ports();
    const auto& outputs = op->output_ports();
    EXPECT_TRUE(std::any_of(inputs.begin(), inputs.end(), is_named) ||
                std::any_of(outputs.begin(), outputs.end(), is_named))
        << entry.op << " has no port " << entry.port;
  }
}

}  // namespace
}  // namespace aspen::testing
