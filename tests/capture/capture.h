// Captures a function of tensors and runs it once beside plain torch.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "poptorch/model/model.h"

namespace poptorch {

using Tensors = std::vector<torch::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

struct Captured {
  Tensors outputs;
  NamedTensors state;  // after the run
  Tensors inputs;      // after the run
  std::string text;    // of the compiled graph
  std::vector<std::string> host_calls;
};

// Buffers are given by name and changed in place, as by a module; so are inputs.
inline Captured capture_and_run(const Function& function, Tensors inputs, NamedTensors buffers = {}) {
  Model model(/*training=*/false);
  for (auto& [name, tensor] : buffers) model.add_tensor(name, tensor, /*is_parameter=*/false);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs.size(); ++i) names.push_back("x" + std::to_string(i));
  const auto outputs = model.capture(function, inputs, names);
  model.compile({.backend = "reference"});
  model.attach();
  model.upload_weights();
  std::size_t in_graph = 0;
  for (const ModelOutput& output : outputs) in_graph += output.in_graph;
  const Tensors results = model.run(inputs, 1, 1, std::vector<OutputRequest>(in_graph), nullptr);
  model.download_weights();
  Captured captured{.state = buffers, .inputs = inputs, .text = model.graph_text(), .host_calls = model.host_calls()};
  for (const ModelOutput& output : outputs) {
    captured.outputs.push_back(output.in_graph ? results[output.index] : output.host);
  }
  return captured;
}

inline void expect_close(const torch::Tensor& got, const torch::Tensor& wanted, const std::string& what) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  EXPECT_TRUE(torch::allclose(got.to(torch::kDouble), wanted.to(torch::kDouble), 1e-5, 1e-6, /*equal_nan=*/true))
      << what << ": got\n"
      << got << "\nwanted\n"
      << wanted;
}

// What the function returns and leaves in its inputs must be what plain torch returns and leaves there.
inline void expect_like_torch(const Function& function, const Tensors& inputs) {
  Tensors own_inputs, plain_inputs;
  for (const torch::Tensor& input : inputs) {
    own_inputs.push_back(input.clone());
    plain_inputs.push_back(input.clone());
  }
  const Captured captured = capture_and_run(function, own_inputs);
  const Tensors wanted = function(plain_inputs);
  ASSERT_EQ(captured.outputs.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    expect_close(captured.outputs[i], wanted[i], "output " + std::to_string(i));
  }
  for (std::size_t i = 0; i < plain_inputs.size(); ++i) {
    expect_close(captured.inputs[i], plain_inputs[i], "input " + std::to_string(i));
  }
}

}  // namespace poptorch
