// Gradients a C++ model brings itself: torch::autograd::Function with its own backward, and hooks.
#include <torch/torch.h>

#include "poptorch/poptorch.h"
#include "tests/capture/capture.h"

namespace poptorch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The square with half its gradient: whoever differentiates forward notices.
struct Halved : torch::autograd::Function<Halved> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, double factor) {
    context->save_for_backward({x});
    context->saved_data["factor"] = factor;
    return x * x * factor;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::Tensor x = context->get_saved_variables()[0];
    return {x * gradients[0] * context->saved_data["factor"].toDouble(), torch::Tensor()};
  }
};

struct Rounded : torch::autograd::Function<Rounded> {
  static variable_list forward(AutogradContext*, const torch::Tensor& x, const torch::Tensor& weight) {
    return {torch::round(x * 4) / 4, x + weight};
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0] + gradients[1], gradients[1] * 3};
  }
};

struct Network : torch::nn::Module {
  using Body = std::function<torch::Tensor(Network&, const torch::Tensor&)>;

  explicit Network(Body body) : body(std::move(body)) {
    torch::manual_seed(1);
    linear = register_module("linear", torch::nn::Linear(4, 4));
    scale = register_parameter("scale", torch::linspace(0.5, 1.5, 4));
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::mse_loss(body(*this, x), torch::zeros({3, 4})); }

  torch::nn::Linear linear{nullptr};
  torch::Tensor scale;
  Body body;
};

void expect_trains_like_torch(const Network::Body& body) {
  auto own = std::make_shared<Network>(body), plain = std::make_shared<Network>(body);
  auto trainer = trainingModel(own, Options(), optim::SGD(own->parameters(), {.lr = 0.1}));
  torch::optim::SGD optimizer(plain->parameters(), torch::optim::SGDOptions(0.1));
  for (int step = 0; step < 10; ++step) {
    torch::manual_seed(100 + step);
    const torch::Tensor x = torch::randn({3, 4});
    optimizer.zero_grad();
    const torch::Tensor wanted = plain->forward(x);
    wanted.backward();
    optimizer.step();
    expect_close(trainer.run({x})[0], wanted.detach(), "loss of step " + std::to_string(step));
  }
  trainer.copyWeightsToHost();
  for (const auto& entry : plain->named_parameters()) {
    expect_close(own->named_parameters()[entry.key()].detach(), entry.value().detach(), entry.key());
  }
}

TEST(Autograd, BackwardOfAFunctionTrains) {
  expect_trains_like_torch(
      [](Network& network, const torch::Tensor& x) { return Halved::apply(network.linear(x), 1.5); });
}

TEST(Autograd, FunctionOfAParameter) {
  expect_trains_like_torch(
      [](Network& network, const torch::Tensor& x) { return network.linear(x) * Halved::apply(network.scale, 0.5); });
}

TEST(Autograd, FunctionWithTwoResults) {
  expect_trains_like_torch([](Network& network, const torch::Tensor& x) {
    const variable_list results = Rounded::apply(network.linear(x), network.scale.expand({3, 4}));
    return results[0] * results[1];
  });
}

TEST(Autograd, HooksOnTensorsAndParameters) {
  expect_trains_like_torch([](Network& network, const torch::Tensor& x) {
    torch::Tensor y = network.linear(x);
    y.register_hook([](const torch::Tensor& gradient) { return gradient.clamp(-0.01, 0.02); });
    return y * network.scale;
  });
}

TEST(Autograd, ParameterChangedUnderNoGradIsTrained) {
  expect_trains_like_torch([](Network& network, const torch::Tensor& x) {
    {
      torch::NoGradGuard no_grad;
      network.scale.clamp_(0.6, 1.2);
    }
    return network.linear(x) * network.scale;
  });
}

TEST(Autograd, TensorKeptFromAnEarlierCaptureIsRefused) {
  torch::Tensor kept;
  const auto forward = [&](const Tensors& in) -> Tensors {
    if (!kept.defined()) kept = in[0] * 2;
    return {in[0] + kept};
  };
  capture_and_run(forward, {torch::ones({2})});
  try {
    capture_and_run(forward, {torch::ones({2})});
    FAIL() << "a tensor of another capture was used";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("was captured before, and was kept since"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace poptorch
