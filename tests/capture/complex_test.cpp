// Complex numbers and linear algebra in models of C++: on the device, as in torch.
#include "tests/capture/capture.h"

namespace poptorch {
namespace {

void expect_on_device(const Function& function, const Tensors& inputs) {
  expect_like_torch(function, inputs);
  EXPECT_TRUE(capture_and_run(function, inputs).host_calls.empty());
}

TEST(Complex, FourierTransformsStayOnTheDevice) {
  expect_on_device(
      [](const Tensors& in) -> Tensors {
        const auto spectrum = torch::fft_rfft(in[0]);
        const auto turned = spectrum * c10::complex<double>(0.5, -1) / 3;
        return {torch::view_as_real(spectrum), torch::fft_irfft(spectrum * 2), spectrum.abs(),
                torch::view_as_real(turned)};
      },
      {torch::arange(12, torch::kFloat).view({2, 6}).sin()});
}

TEST(Complex, ArithmeticIsThatOfThePairs) {
  expect_on_device(
      [](const Tensors& in) -> Tensors {
        const auto x = torch::view_as_complex(in[0]), y = torch::view_as_complex(in[1]);
        return {torch::view_as_real(x * y + x / y), torch::view_as_real(x.matmul(y.t())), x.angle()};
      },
      {torch::linspace(0.5, 2, 12).view({2, 3, 2}), torch::linspace(-1, 3, 12).view({2, 3, 2})});
}

TEST(LinearAlgebra, SolvesOnTheDevice) {
  expect_on_device(
      [](const Tensors& in) -> Tensors {
        const auto a = in[0].matmul(in[0].t()) + torch::eye(3);
        return {torch::linalg_solve(a, in[1]), torch::linalg_cholesky(a), torch::linalg_det(a),
                torch::linalg_svdvals(in[0]), std::get<1>(torch::linalg_qr(in[0]))};
      },
      {torch::linspace(-1, 1, 9).cos().view({3, 3}) * torch::eye(3) + torch::linspace(0, 1, 9).view({3, 3}),
       torch::ones({3, 2})});
}

}  // namespace
}  // namespace poptorch
