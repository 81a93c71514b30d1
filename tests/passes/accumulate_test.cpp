// Gradients that many have a part in, micro-batches, devices and replicas, lead to the weights of one.
#include <gtest/gtest.h>

#include "train.h"

namespace aspen::testing {
namespace {

void expect_near(const Weights& result, const Weights& expected, double tolerance) {
  for (const auto& [name, numbers] : expected) {
    ASSERT_EQ(result.count(name), 1u) << name;
    ASSERT_EQ(result.at(name).size(), numbers.size()) << name;
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(result.at(name)[i], numbers[i], tolerance) << name;
  }
}

TEST(Accumulate, TwoDevicesUpdateAsOne) {
  for (const char* options : {"optimizer=adam", "optimizer=sgd scales_loss",
                              "optimizer=lamb scales_loss max_grad_norm=0.01", "optimizer=adamw max_grad_norm=0.01"}) {
    for (const char* execution : {" execution=sharded", " execution=pipelined gradient_accumulation=3"}) {
      std::string text = std::string(options) + execution;
      EXPECT_EQ(train(text, 2), train(text, 1)) << text;
    }
  }
}

TEST(Accumulate, ClippingTakesHold) { EXPECT_NE(train("optimizer=sgd"), train("optimizer=sgd max_grad_norm=0.01")); }

TEST(Accumulate, ReplicasCountAsMicroBatches) {
  for (const char* reduction : {"", " sum", " running_mean"}) {
    std::string text = std::string("optimizer=sgd") + reduction;
    Weights one = train(text + " gradient_accumulation=4");
    expect_near(train(text + " gradient_accumulation=2 replicas=2"), one, 1e-5);
    expect_near(train(text + " replicas=4"), one, 1e-5);
  }
}

TEST(Accumulate, ARunningMeanIsTheMean) {
  std::string text = "optimizer=sgd gradient_accumulation=3 replicas=2";
  expect_near(train(text + " running_mean"), train(text), 1e-5);
  EXPECT_NE(train(text + " sum"), train(text));
}

}  // namespace
}  // namespace aspen::testing
