// Ops without a lowering run on the host, forward and backward.
#include "poptorch/capture/call.h"
#include "tests/capture/capture.h"

namespace poptorch {
namespace {

// Takes a lowering away for as long as it lives.
class WithoutHandler {
 public:
  explicit WithoutHandler(const std::string& name) { handler_table().remove(name); }
  ~WithoutHandler() { restore_handlers(); }
};

TEST(HostCall, ComputesWhatTorchComputes) {
  const WithoutHandler without("aten::linalg_inv_ex");
  const Function function = [](const Tensors& in) -> Tensors {
    const auto square = in[0].matmul(in[0].t()) + torch::eye(3);
    return {torch::linalg_inv(square), torch::special_erfcx(in[0])};
  };
  torch::manual_seed(3);
  const auto x = torch::randn({3, 3});
  expect_like_torch(function, {x});
  const Captured captured = capture_and_run(function, {x});
  EXPECT_FALSE(captured.host_calls.empty());
}

TEST(HostCall, IntegersArriveAsTorchExpectsThem) {
  const WithoutHandler without("aten::gather");
  expect_like_torch([](const Tensors& in) -> Tensors { return {in[0].gather(0, in[1])}; },
                    {torch::randn({4, 3}), torch::tensor({{3, 0, 1}})});
}

TEST(HostCall, SeveralResults) {
  const WithoutHandler without("aten::max.dim");
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        const auto [values, indices] = in[0].max(1);
        return {values, indices};
      },
      {torch::randn({4, 3})});
}

TEST(HostCall, WritesItsArguments) {
  const WithoutHandler without("aten::renorm");
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        auto x = in[0].clone();
        auto row = x[0];
        x.renorm_(2, 0, 0.5);
        return {x, row};
      },
      {torch::randn({4, 3})});
}

TEST(HostCall, HalfPrecisionIsComputedInFloat) {
  const WithoutHandler without("aten::special_erfcx");
  torch::manual_seed(3);
  const auto x = torch::rand({2, 3}).to(torch::kHalf);
  const Captured captured =
      capture_and_run([](const Tensors& in) -> Tensors { return {torch::special_erfcx(in[0])}; }, {x});
  EXPECT_EQ(captured.outputs[0].scalar_type(), torch::kHalf);
  const auto wanted = torch::special_erfcx(x.to(torch::kFloat)).to(torch::kHalf);
  expect_close(captured.outputs[0], wanted, "output");
}

TEST(HostCall, ErrorsOfTorchNameTheOp) {
  const WithoutHandler without("aten::linalg_cholesky_ex");
  try {
    const auto function = [](const Tensors& in) -> Tensors {
      return {std::get<0>(torch::linalg_cholesky_ex(in[0], /*upper=*/false, /*check_errors=*/true))};
    };
    capture_and_run(function, {-torch::eye(3)});
    FAIL() << "no error";
  } catch (const aspen::Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("linalg_cholesky_ex"), std::string::npos) << text;
    EXPECT_EQ(text.find("frame #"), std::string::npos) << text;
  }
}

// y = f(w * x), trained for one step by SGD with learning rate 1: the step is the gradient.
torch::Tensor trained_step(const std::function<torch::Tensor(torch::Tensor)>& f, torch::Tensor w,
                           const torch::Tensor& x) {
  Model model(/*training=*/true);
  model.add_tensor("w", w, /*is_parameter=*/true);
  model.capture([&](const Tensors& in) -> Tensors { return {torch::mse_loss(f(w * in[0]), torch::zeros_like(in[0]))}; },
                {x}, {"x"});
  CompileSettings settings;
  settings.backend = "reference";
  settings.options.optimizer.kind = "sgd";
  settings.options.optimizer.groups = {{.parameters = {"w"}}};
  settings.settings = {{1, 0, 0, 0, 0, 1, 0}};
  model.compile(settings);
  model.attach();
  model.upload_weights();
  model.run({x}, 1, 1, {OutputRequest{}}, nullptr);
  const auto before = w.detach().clone();
  model.download_weights();
  return before - w.detach();
}

torch::Tensor torch_gradient(const std::function<torch::Tensor(torch::Tensor)>& f, const torch::Tensor& w,
                             const torch::Tensor& x) {
  auto leaf = w.detach().clone().requires_grad_(true);
  torch::mse_loss(f(leaf * x), torch::zeros_like(x)).backward();
  return leaf.grad();
}

TEST(HostCall, GradientComesFromTorch) {
  const WithoutHandler without("aten::special_erfcx");
  const auto f = [](torch::Tensor x) { return torch::special_erfcx(x); };
  torch::manual_seed(5);
  auto w = torch::rand({2, 3}).requires_grad_(true);
  const auto x = torch::rand({2, 3});
  const auto wanted = torch_gradient(f, w, x);
  expect_close(trained_step(f, w, x), wanted, "gradient");
}

TEST(HostCall, GradientOfAnOpWhoseHandlerWasRemoved) {
  const WithoutHandler without("aten::nan_to_num");
  const auto f = [](torch::Tensor x) { return torch::nan_to_num(x) * 3; };
  auto w = torch::rand({2, 3}).requires_grad_(true);
  const auto x = torch::rand({2, 3});
  const auto wanted = torch_gradient(f, w, x);
  expect_close(trained_step(f, w, x), wanted, "gradient");
}

}  // namespace
}  // namespace poptorch
