// The cases of the conformance tests: every example of every op, with inputs drawn for it. A new op takes part in
// all of them by having examples; nothing here names it.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "aspen/compiler/ir/builder.h"
#include "tests/support/interpret.h"

namespace aspen::testing {

struct Case {
  const OpDef* op = nullptr;
  std::size_t index = 0;          // of the example
  bool without_optional = false;  // optional inputs left out

  const Example& example() const { return op->examples()[index]; }
  std::string name() const;  // "softmax_0", "conv_2_required_only"
};

std::vector<Case> all_cases();
std::vector<Case> float_cases();     // those with an f32 input
std::vector<Case> gradient_cases();  // those whose gradient finite differences can check

// Inputs of a case, floating types replaced by `floating` (or as in the example); HostTensor() for one left out.
std::vector<HostTensor> case_inputs(const Case& c, std::optional<DType> floating = {});

// A graph with graph inputs, and the op applied to them.
struct CaseGraph {
  CaseGraph(const Case& c, const std::vector<HostTensor>& tensors);
  Tensors bind(const std::vector<HostTensor>& tensors) const;  // to the graph's inputs

  Graph graph;
  std::vector<Value*> inputs;  // nullptr: left out
  Op* op;
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }
inline std::string case_name(const ::testing::TestParamInfo<Case>& info) { return info.param.name(); }

}  // namespace aspen::testing
