// A device that useIpuId names belongs to one executor at a time.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <cstdlib>

#include "error_of.h"

namespace {

using poptorch::tests::error_of;

struct Double : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x * 2; }
};

auto executor_on(std::int64_t device, poptorch::ConnectionType connection = poptorch::ConnectionType::Always) {
  return poptorch::inferenceModel(std::make_shared<Double>(),
                                  poptorch::Options().useIpuId(device).connectionType(connection));
}

const torch::Tensor kX = torch::ones({2});

TEST(DeviceIds, ATakenDeviceIsRefusedUntilItIsDetached) {
  auto first = executor_on(53), second = executor_on(53);
  first(kX);
  EXPECT_NE(error_of([&] { second.compile(kX); }).find("Failed to acquire device 53"), std::string::npos);
  EXPECT_FALSE(second.isCompiled());
  first.detachFromDevice();
  EXPECT_NE(error_of([&] { first.detachFromDevice(); }).find("Device is not attached"), std::string::npos);
  second.compile(kX);
  EXPECT_TRUE(second.isAttachedToDevice());
  EXPECT_NE(error_of([&] { first(kX); }).find("Failed to acquire"), std::string::npos);
  second.destroy();
  EXPECT_TRUE(torch::equal(first(kX), kX * 2));
}

TEST(DeviceIds, OnDemandTakesTheDeviceAtTheFirstCall) {
  auto first = executor_on(54, poptorch::ConnectionType::OnDemand), second = executor_on(54);
  first.compile(kX);
  EXPECT_FALSE(first.isAttachedToDevice());
  second.compile(kX);
  EXPECT_NE(error_of([&] { first(kX); }).find("Failed to acquire"), std::string::npos);
  second.detachFromDevice();
  first(kX);
  EXPECT_TRUE(first.isAttachedToDevice());
}

}  // namespace
