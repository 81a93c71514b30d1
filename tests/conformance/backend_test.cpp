// Every backend against the reference, on every example, in the example's types, in half and in bfloat16; bfloat16 on
// every backend against float32 rounded once; and every in-place use
// an op declares against the same op with memory of its own.
#include <gtest/gtest.h>

#include <cmath>

#include "aspen/base/error.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/exceptions.h"
#include "tests/conformance/tolerances.h"
#include "tests/support/backends.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

constexpr StepContext kStep{.seed = 7, .step = 3, .replica = 1};

const std::vector<std::shared_ptr<Backend>>& backends() {
  static const std::vector<std::shared_ptr<Backend>> built = built_backends();
  return built;
}

void expect_close(const HostTensor& actual, const HostTensor& expected, const std::string& what) {
  const Tolerance& tolerance = tolerance_of(expected.type().dtype);
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(close(actual.at(i), expected.at(i), tolerance))
        << what << ", element " << i << ": " << actual.at(i) << " where the reference has " << expected.at(i)
        << "; tolerance " << tolerance.relative << " relative, " << tolerance.absolute << " absolute ("
        << tolerance.reason << ")";
  }
}

// Memory starts as NaN and no example leaves the domain of its op: a NaN is a place the kernel did not write.
void expect_written(const HostTensor& tensor, const std::string& what) {
  for (std::int64_t i = 0; i < tensor.size(); ++i) ASSERT_FALSE(std::isnan(tensor.at(i))) << what << ", element " << i;
}

void compare_backends(const Case& c, const std::vector<HostTensor>& inputs) {
  CaseGraph graph(c, inputs);
  Interpretation expected = Interpreter(graph.graph, *backends()[0])(graph.bind(inputs), kStep);
  for (const Value* output : graph.op->outputs()) {
    expect_written(expected.values.at(output), to_string(kernel_request(*graph.op)));
  }
  for (std::size_t k = 1; k < backends().size(); ++k) {
    Interpretation actual = Interpreter(graph.graph, *backends()[k])(graph.bind(inputs), kStep);
    for (const Value* output : graph.op->outputs()) {
      expect_close(actual.values.at(output), expected.values.at(output),
                   fmt::format("{} on {}, output {}", to_string(kernel_request(*graph.op)), backends()[k]->name(),
                               output->index()));
    }
  }
}

class OnBackends : public ::testing::TestWithParam<Case> {};

TEST_P(OnBackends, EqualsReference) { compare_backends(GetParam(), case_inputs(GetParam())); }

class InHalf : public ::testing::TestWithParam<Case> {};

TEST_P(InHalf, EqualsReference) {
  std::vector<HostTensor> inputs = case_inputs(GetParam(), DType::kF16);
  try {
    CaseGraph accepted(GetParam(), inputs);
  } catch (const UserError& error) {
    GTEST_SKIP() << "the op does not take half here: " << error.what();
  }
  compare_backends(GetParam(), inputs);
}

class InBFloat16 : public ::testing::TestWithParam<Case> {
 protected:
  // What the op says if it does not take its operands in bfloat16; only those listed as exceptions may.
  static std::string refusal(const std::vector<HostTensor>& inputs) {
    try {
      CaseGraph accepted(GetParam(), inputs);
    } catch (const UserError& error) {
      EXPECT_TRUE(refuses_bfloat16(GetParam().op->name())) << error.what();
      return error.what();
    }
    return "";
  }
};

TEST_P(InBFloat16, EqualsReference) {
  std::vector<HostTensor> inputs = case_inputs(GetParam(), DType::kBF16);
  if (std::string why = refusal(inputs); !why.empty()) GTEST_SKIP() << why;
  compare_backends(GetParam(), inputs);
}

std::vector<HostTensor> in_float32(const std::vector<HostTensor>& tensors) {
  std::vector<HostTensor> wide;
  for (const HostTensor& tensor : tensors) {
    bool is_narrow = tensor.type().dtype == DType::kBF16;
    wide.push_back(is_narrow ? HostTensor({DType::kF32, tensor.type().shape}, tensor.numbers()) : tensor);
  }
  return wide;
}

// The same numbers in float32, rounded at the end: bfloat16 loses nothing on the way. Random numbers of its own aside.
TEST_P(InBFloat16, EqualsFloat32RoundedOnce) {
  const Case& c = GetParam();
  std::vector<HostTensor> inputs = case_inputs(c, DType::kBF16), wide_inputs = in_float32(inputs);
  if (std::string why = refusal(inputs); !why.empty()) GTEST_SKIP() << why;
  CaseGraph narrow(c, inputs), wide(c, wide_inputs);
  for (const auto& backend : backends()) {
    Interpretation actual = Interpreter(narrow.graph, *backend)(narrow.bind(inputs), kStep);
    Interpretation expected = Interpreter(wide.graph, *backend)(wide.bind(wide_inputs), kStep);
    for (std::size_t i = 0; i < narrow.op->num_outputs(); ++i) {
      const HostTensor& y = actual.values.at(narrow.op->output(i));
      HostTensor rounded(y.type(), expected.values.at(wide.op->output(i)).numbers());
      ASSERT_EQ(y.numbers(), rounded.numbers())
          << to_string(kernel_request(*narrow.op)) << " on " << backend->name() << ", output " << i;
    }
  }
}

// What the op leaves in output `output` when that shares the memory of input `input`.
HostTensor run_in_place(const Backend& backend, const CaseGraph& graph, std::vector<HostTensor> inputs,
                        std::size_t output, std::size_t input) {
  auto kernel = backend.create_kernel(kernel_request(*graph.op));
  std::vector<const void*> in;
  std::vector<void*> out;
  std::vector<HostTensor> results;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(graph.inputs[i] != nullptr ? inputs[i].data() : nullptr);
  }
  for (const Value* value : graph.op->outputs()) results.push_back(poisoned(value->type()));
  for (auto& result : results) out.push_back(result.data());
  out[output] = inputs[input].data();
  AlignedBytes workspace(kernel->workspace_bytes(), std::byte{0xff});
  kernel->run({.inputs = in, .outputs = out, .workspace = workspace.data(), .step = &kStep});
  return inputs[input];
}

TEST_P(OnBackends, MayRunInPlaceWhereDeclared) {
  const Case& c = GetParam();
  std::vector<HostTensor> inputs = case_inputs(c);
  CaseGraph graph(c, inputs);
  for (const auto& backend : backends()) {
    Interpretation apart = Interpreter(graph.graph, *backend)(graph.bind(inputs), kStep);
    for (auto [output, input] : c.op->inplace_pairs()) {
      // A pair may name an optional input; the planner shares memory only between equal types.
      if (input >= inputs.size() || graph.inputs[input] == nullptr || output >= graph.op->num_outputs() ||
          graph.op->output(output)->type() != inputs[input].type())
        continue;
      HostTensor together = run_in_place(*backend, graph, inputs, output, input);
      EXPECT_EQ(together.numbers(), apart.values.at(graph.op->output(output)).numbers())
          << to_string(kernel_request(*graph.op)) << " on " << backend->name() << ", output " << output
          << " in the memory of input " << input;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OnBackends, ::testing::ValuesIn(all_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, InHalf, ::testing::ValuesIn(float_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, InBFloat16, ::testing::ValuesIn(float_cases()), case_name);

}  // namespace
}  // namespace aspen::testing
