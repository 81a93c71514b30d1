#include "aspen/ops/unary/unary.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

TensorType f16(Shape shape) { return {DType::kF16, std::move(shape)}; }

TEST(Unary, LongRowsWithARemainder) {
  for (const char* op :
       {"neg", "abs", "sign", "floor", "ceil", "round", "trunc", "relu", "sqrt", "rsqrt", "reciprocal"}) {
    compare(op, Attrs(), {f32({1003})}, {.tolerance = 0, .low = -4, .high = 4});
  }
  for (const char* op : {"exp", "expm1", "tanh", "sigmoid", "silu", "erf"}) {
    compare(op, Attrs(), {f32({1003})}, {.tolerance = 5e-7, .low = -9, .high = 9});
  }
  for (const char* op : {"log", "log1p"}) compare(op, Attrs(), {f32({1003})}, {.tolerance = 5e-7, .low = 0, .high = 9});
}

TEST(Unary, HalfGoesThroughFloat) {
  for (const char* op : {"neg", "relu", "exp", "tanh", "sigmoid"}) {
    compare(op, Attrs(), {f16({1500})}, {.tolerance = 1e-3, .low = -4, .high = 4});
  }
}

TEST(Unary, ParametersFromAttributes) {
  for (bool tanh : {false, true}) {
    compare("gelu", Attrs::of(GeluAttrs{tanh}), {f32({777})}, {.low = -5, .high = 5});
    compare("gelu_grad", Attrs::of(GeluAttrs{tanh}), {f32({777}), f32({777})}, {.low = -5, .high = 5});
  }
  compare("softplus", Attrs::of(SoftplusAttrs{2, 3}), {f32({777})}, {.low = -5, .high = 5});
  compare("softplus_grad", Attrs::of(SoftplusAttrs{2, 3}), {f32({777}), f32({777})}, {.low = -5, .high = 5});
  compare("clamp", Attrs::of(ClampAttrs{-0.5, 0.25}), {f32({777})}, {.tolerance = 0});
  compare("clamp_grad", Attrs::of(ClampAttrs{-0.5, 0.25}), {f32({777}), f32({777})}, {.tolerance = 0});
}

TEST(Unary, Gradients) {
  for (const char* op : {"relu_grad", "tanh_grad", "sigmoid_grad", "silu_grad"}) {
    compare(op, Attrs(), {f32({5, 131}), f32({5, 131})}, {.tolerance = 1e-6});
  }
}

// The special values of every function, as in <cmath>.
TEST(Unary, InfinitiesAndNan) {
  float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values = {0,       -0.0f,  1,       -1,    inf,    -inf, nan, 88.8f,
                               -104.5f, 1e-40f, -1e-40f, 3e38f, -3e38f, 20,   -20};
  while (values.size() < 40) values.push_back(values[values.size() % 15]);
  auto reference = make_reference_backend();
  for (const char* op : {"exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "relu", "abs", "sign", "sqrt"}) {
    KernelRequest request = request_of(op, Attrs(), {f32({40})});
    auto expected = run_kernel(*reference, request, {values.data()}),
         actual = run_kernel(tuned_backend(), request, {values.data()});
    for (std::size_t i = 0; i < values.size(); ++i) {
      float e = expected[0].as<float>()[i], a = actual[0].as<float>()[i];
      if (std::isnan(e)) {
        EXPECT_TRUE(std::isnan(a)) << op << "(" << values[i] << ") is " << a;
      } else if (std::isinf(e)) {
        EXPECT_EQ(e, a) << op << "(" << values[i] << ")";
      } else {
        EXPECT_NEAR(e, a, std::abs(e) * 1e-6) << op << "(" << values[i] << ")";
      }
    }
  }
}

TEST(Binary, EveryKindOfBroadcast) {
  for (const char* op : {"add", "sub", "mul", "div", "max", "min", "eq", "ne", "lt", "le", "gt", "ge"}) {
    compare(op, Attrs(), {f32({33, 17}), f32({33, 17})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({33, 17}), f32({})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({}), f32({33, 17})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({33, 17}), f32({17})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({33, 1}), f32({33, 17})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({4, 12, 9, 9}), f32({12, 1, 1})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({3, 1, 5}), f32({1, 4, 1})}, {.tolerance = 0});
  }
}

TEST(Binary, HalfBroadcasts) {
  compare("add", Attrs(), {f16({4, 700}), f16({700})}, {.tolerance = 0});
  compare("mul", Attrs(), {f16({4, 700}), f16({4, 1})}, {.tolerance = 0});
  compare("sub", Attrs(), {f16({}), f16({4, 700})}, {.tolerance = 0});
}

}  // namespace
}  // namespace aspen::testing
