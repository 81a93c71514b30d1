// A tiny interpreter: runs the ops of a graph one by one through a backend, each into fresh memory. It knows
// nothing of the compiler or the runtime, so it can vouch for both.
//
//   Graph graph; Builder b(graph);
//   Value* x = graph.add_input("x", {DType::kF32, {2}});
//   Value* y = b.make("exp", {x});
//   Interpreter run(graph, *make_reference_backend());
//   HostTensor result = run({{x, HostTensor({DType::kF32, {2}}, {0, 1})}}).values.at(y);
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/ir/builder.h"
#include "tests/support/host_tensor.h"

namespace aspen::testing {

KernelRequest kernel_request(const Op& op);

using Tensors = std::map<const Value*, HostTensor>;

struct Interpretation {
  Tensors values;                               // of everything in the graph
  std::map<std::string, HostTensor> variables;  // after the assigns
};

class Interpreter {
 public:
  Interpreter(const Graph& graph, const Backend& backend);

  // `known` holds the graph's inputs and its variables; a variable left out has its initial value.
  Interpretation operator()(Tensors known, const StepContext& step = {}) const;

 private:
  struct Instruction {
    const Op* op;
    std::unique_ptr<Kernel> kernel;                    // nullptr: an alias, or an op that owns graphs
    std::vector<std::unique_ptr<Interpreter>> bodies;  // of one that does
  };
  static void run_bodies(const Instruction& instruction, Tensors& values, const StepContext& step);
  // What the graph returns for these inputs.
  std::vector<HostTensor> results(const std::vector<HostTensor>& inputs, const StepContext& step) const;
  static std::vector<HostTensor> run_loop(const Op& op, const Interpreter& body, std::vector<HostTensor> operands,
                                          const StepContext& step);
  const Graph& graph_;
  std::vector<Instruction> instructions_;
};

// Outputs of one op applied to tensors; an empty HostTensor() stands for an optional input left out.
std::vector<HostTensor> run_op(const Backend& backend, std::string_view op, const std::vector<HostTensor>& inputs,
                               const Attrs& attrs = {}, const StepContext& step = {});

// What the op's gradient rule makes of the gradients of its outputs: one tensor per input, HostTensor() where it sets
// none. HostTensor() among the output gradients says that none arrives there.
std::vector<HostTensor> run_gradient(const Backend& backend, std::string_view op, const std::vector<HostTensor>& inputs,
                                     const std::vector<HostTensor>& output_gradients, const Attrs& attrs = {},
                                     const StepContext& step = {});

}  // namespace aspen::testing
