#include "aspen/ops/host_call/host_call.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/reference.h"

namespace aspen::testing {
namespace {

class Lambda final : public HostFunction {
 public:
  using Body = std::function<void(std::span<const void* const>, std::span<void* const>)>;
  explicit Lambda(Body body) : body_(std::move(body)) {}
  std::string name() const override { return "lambda"; }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override { body_(inputs, outputs); }

 private:
  Body body_;
};

float read(const void* data, int i = 0) { return static_cast<const float*>(data)[i]; }
void write(void* data, float value) { *static_cast<float*>(data) = value; }

// (x, k) -> (k * x, x + 1); the gradient sees x, k and both output gradients and yields that of x.
HostCallAttrs scaled() {
  auto forward = std::make_shared<Lambda>([](auto in, auto out) {
    write(out[0], read(in[0]) * static_cast<float>(*static_cast<const std::int32_t*>(in[1])));
    write(out[1], read(in[0]) + 1);
  });
  auto backward = std::make_shared<Lambda>([](auto in, auto out) {
    write(out[0], read(in[2]) * static_cast<float>(*static_cast<const std::int32_t*>(in[1])) + read(in[3]));
  });
  return {.function = forward, .gradient = backward, .differentiable = {0}, .outputs = "f32[1]; f32[]"};
}

TEST(HostCall, RunsTheFunction) {
  auto out = apply("host_call", {f32({1}, {3}), i32({1}, {4})}, scaled());
  EXPECT_EQ(out[0], f32({1}, {12}));
  EXPECT_EQ(out[1], f32({}, {4}));
}

TEST(HostCall, GradientIsAnotherCallWithZerosWhereNothingArrives) {
  std::vector<HostTensor> inputs{f32({1}, {3}), i32({1}, {4})};
  auto both = differentiate("host_call", inputs, {f32({1}, {10}), f32({}, {5})}, scaled());
  EXPECT_EQ(both[0], f32({1}, {45}));
  EXPECT_EQ(both[1], HostTensor());
  auto second = differentiate("host_call", inputs, {HostTensor(), f32({}, {5})}, scaled());
  EXPECT_EQ(second[0], f32({1}, {5}));
}

TEST(HostCall, GradientsThatDoNotArriveMayBeLeftOut) {
  HostCallAttrs attrs = scaled();
  attrs.absent_gradients = true;
  attrs.gradient = std::make_shared<Lambda>([](auto in, auto out) {
    ASSERT_EQ(in.size(), 4u);
    EXPECT_EQ(in[2], nullptr);
    write(out[0], read(in[3]) * 2);
  });
  std::vector<HostTensor> inputs{f32({1}, {3}), i32({1}, {4})};
  auto second = differentiate("host_call", inputs, {HostTensor(), f32({}, {5})}, attrs);
  EXPECT_EQ(second[0], f32({1}, {10}));
}

TEST(HostCall, WithoutAGradientFunctionStopsGradients) {
  HostCallAttrs attrs = scaled();
  attrs.gradient = nullptr;
  auto gradients = differentiate("host_call", {f32({1}, {3}), i32({1}, {4})}, {f32({1}, {1}), f32({}, {1})}, attrs);
  EXPECT_EQ(gradients[0], HostTensor());
}

TEST(HostCall, ACheckHasNoOutputsAndRuns) {
  auto refuse = std::make_shared<Lambda>([](auto, auto) { throw UserError("refused"); });
  HostCallAttrs attrs{refuse, nullptr, {}, ""};
  EXPECT_EQ(user_error([&] { apply("host_call", {f32({1}, {3})}, attrs); }), "refused");
  EXPECT_TRUE(op_registry().find("host_call").is_impure());
}

TEST(HostCall, RejectsOutputsItCannotRead) {
  auto call = [](std::string outputs) {
    return user_error([&] { apply("host_call", {}, HostCallAttrs{.outputs = outputs}); });
  };
  EXPECT_EQ(call("f32"), "[host_call] outputs \"f32\" are not a list like \"f32[2, 3]; i32[4]\": a [ is missing.");
  EXPECT_EQ(call("f32[2, x]"), "[host_call] outputs \"f32[2, x]\": expected an extent at character 7.");
  EXPECT_NE(call("f32[2]").find("has no function"), std::string::npos);
}

TEST(HostCall, RejectsAbsentInputsThatCannotBe) {
  for (const std::vector<std::int64_t>& absent : {std::vector<std::int64_t>{-1}, {4}, {1, 1}, {0, 1 << 30}}) {
    HostCallAttrs attrs = scaled();
    attrs.absent = absent;
    EXPECT_THROW(apply("host_call", {f32({1}, {3}), i32({1}, {4})}, attrs), UserError);
  }
}

}  // namespace
}  // namespace aspen::testing
