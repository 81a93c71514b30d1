// Errors of the public C++ API where a device fails: what they are, what they say repairs it, and that it does.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include "aspen/base/device_fault.h"
#include "poptorch/api/guarded.h"

namespace poptorch::tests {
namespace {

using Tensors = std::vector<at::Tensor>;

// A model that calls an operator of the user's with hardware of its own, which fails in the given way while `fails`.
template <class Failure>
struct Driver {
  bool fails = true;
  RegisteredCustomOp op;

  explicit Driver(Failure failure)
      : op({.name = "Drive",
            .domain = "test.faults",
            .kernel = [this, failure](const Tensors& in, const Tensors& out, const CustomOpAttributes&) {
              if (fails) throw failure;
              out[0].copy_(in[0]);
            }}) {}
};

struct Driven : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return customOp({x}, "Drive", "test.faults", 1, {x})[0] + 1; }
};

TEST(DeviceFaults, OfHardwareOfTheUsersOwnKeepTheirRecoveryAction) {
  for (const char* const action : {"IPU_RESET", "LINK_RESET", "PARTITION_RESET", "FULL_RESET"}) {
    Driver driver(RecoverableError("the link is down", "", "", action));
    auto executor = inferenceModel(std::make_shared<Driven>());
    const auto x = torch::ones({2});
    try {
      executor(x);
      ADD_FAILURE() << "no error";
    } catch (const RecoverableError& error) {
      EXPECT_EQ(error.recoveryAction(), action);
      EXPECT_EQ(error.message(), "[customOp test.faults.Drive version 1] the link is down");
      EXPECT_EQ(error.type(), "poptorch_device_error");
      EXPECT_NE(error.location().find("in op host_call"), std::string::npos) << error.location();
    }
    driver.fails = false;
    EXPECT_TRUE(torch::equal(executor(x), x + 1)) << "once repaired";
  }
}

TEST(DeviceFaults, ThatPersistAreUnrecoverable) {
  const Driver driver(UnrecoverableError("burnt"));
  auto executor = inferenceModel(std::make_shared<Driven>());
  EXPECT_THROW(executor(torch::ones({2})), UnrecoverableError);
}

TEST(DeviceFaults, OfMemoryAreRecoverable) {
  Driver driver{std::bad_alloc()};
  auto executor = inferenceModel(std::make_shared<Driven>());
  const auto x = torch::ones({2});
  EXPECT_THROW(executor(x), RecoverableError);
  driver.fails = false;
  EXPECT_TRUE(torch::equal(executor(x), x + 1));
}

TEST(DeviceFaults, AreToldApartFromMistakes) {
  EXPECT_THROW(throw_as_own(aspen::DeviceFault(aspen::Repair::kNothing, "a")), UnrecoverableError);
  EXPECT_THROW(throw_as_own(aspen::DeviceError("b")), RecoverableError);
  try {
    throw_as_own(aspen::UserError("c"));
  } catch (const RecoverableError&) {
    ADD_FAILURE() << "nobody's device has failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.type(), "poptorch_cpp_error");
  }
}

}  // namespace
}  // namespace poptorch::tests
