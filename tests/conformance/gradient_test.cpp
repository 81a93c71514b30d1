// Gradient rules against central differences, in f64 on the reference backend. The function differentiated is the
// sum of all floating outputs, each element with a random weight; the weights are the gradients the rule receives.
#include <gtest/gtest.h>

#include <cmath>

#include "aspen/backends/reference/reference_backend.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/exceptions.h"
#include "tests/conformance/tolerances.h"
#include "tests/support/interpret.h"

namespace aspen::testing {
namespace {

constexpr std::int64_t kMaxProbes = 96;  // elements tried per input, evenly spread
constexpr StepContext kStep{.seed = 7, .step = 3, .replica = 0};

const Backend& reference() {
  static const std::unique_ptr<Backend> backend = make_reference_backend();
  return *backend;
}

// The last port of a variadic list stands for the rest.
const Port& port_at(const std::vector<Port>& ports, std::size_t i) { return ports[std::min(i, ports.size() - 1)]; }

class Differentiation {
 public:
  explicit Differentiation(const Case& c)
      : case_(c), tensors_(case_inputs(c, DType::kF64)), forward_(c, tensors_), run_(forward_.graph, reference()) {
    for (std::size_t i = 0; i < forward_.op->num_outputs(); ++i) {
      const TensorType& type = forward_.op->output(i)->type();
      bool counts = is_floating(type.dtype) && !has_no_gradient(c.op->name(), port_at(c.op->output_ports(), i).name);
      weights_.push_back(counts ? random_tensor(type, {}, 1000 + i) : HostTensor());
    }
  }

  std::size_t num_inputs() const { return tensors_.size(); }
  const HostTensor& input(std::size_t i) const { return tensors_[i]; }
  bool is_differentiated(std::size_t i) const {
    return forward_.inputs[i] != nullptr && is_floating(tensors_[i].type().dtype) &&
           !has_no_gradient(case_.op->name(), port_at(case_.op->input_ports(), i).name);
  }

  // Central difference by one element of one input.
  double difference(std::size_t input, std::int64_t element) {
    double x = tensors_[input].at(element), h = 1e-6 * std::max(1.0, std::fabs(x));
    tensors_[input].set(element, x + h);
    double above = weighted_sum();
    tensors_[input].set(element, x - h);
    double below = weighted_sum();
    tensors_[input].set(element, x);
    return (above - below) / (2 * h);
  }

  // What the rule says; a gradient it does not set is 0.
  std::vector<HostTensor> analytic() const {
    auto gradients = run_gradient(reference(), case_.op->name(), tensors_, weights_, case_.example().attrs, kStep);
    for (std::size_t i = 0; i < num_inputs(); ++i) {
      if (is_differentiated(i) && gradients[i] == HostTensor()) gradients[i] = HostTensor(tensors_[i].type());
    }
    return gradients;
  }

 private:
  double weighted_sum() const {
    Interpretation result = run_(forward_.bind(tensors_), kStep);
    double sum = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const HostTensor& output = result.values.at(forward_.op->output(i));
      if (weights_[i] == HostTensor()) continue;
      for (std::int64_t k = 0; k < output.size(); ++k) sum += weights_[i].at(k) * output.at(k);
    }
    return sum;
  }

  const Case& case_;
  std::vector<HostTensor> tensors_, weights_;
  CaseGraph forward_;
  Interpreter run_;
};

class Gradient : public ::testing::TestWithParam<Case> {};

TEST_P(Gradient, MatchesFiniteDifferences) {
  Differentiation differentiation(GetParam());
  std::vector<HostTensor> gradients = differentiation.analytic();
  for (std::size_t i = 0; i < differentiation.num_inputs(); ++i) {
    if (!differentiation.is_differentiated(i)) continue;
    const HostTensor& input = differentiation.input(i);
    ASSERT_EQ(to_string(gradients[i].type()), to_string(input.type())) << "gradient of input " << i;
    std::int64_t stride = std::max<std::int64_t>(1, input.size() / kMaxProbes);
    for (std::int64_t k = 0; k < input.size(); k += stride) {
      double actual = gradients[i].at(k), expected = differentiation.difference(i, k);
      ASSERT_TRUE(close(actual, expected, kFiniteDifferences))
          << "input " << i << ", element " << k << " (" << input.at(k) << "): the rule says " << actual
          << ", central differences say " << expected;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradient, ::testing::ValuesIn(gradient_cases()), case_name);

}  // namespace
}  // namespace aspen::testing
