#include "aspen/ops/addcmul/addcmul.h"
#include "aspen/ops/binary/binary.h"
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

TEST(Unary, HardActivations) {
  for (const char* op : {"hardsigmoid", "hardswish"}) {
    compare(op, Attrs(), {f32({1003})}, {.tolerance = 1e-6, .low = -5, .high = 5});
  }
}

// Where 1 + erf would have lost all digits, a tail of the distribution has kept them.
TEST(Unary, GeluOfNegativeNumbersKeepsItsDigits) {
  std::vector<float> x;
  for (int i = 0; i < 1003; ++i) x.push_back(-5.0f * static_cast<float>(i) / 1003);
  auto y = run_kernel(tuned_backend(), request_of("gelu", Attrs::of(GeluAttrs{}), {f32({1003})}), {x.data()});
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = 0.5 * x[i] * std::erfc(-x[i] / std::sqrt(2.0));
    EXPECT_NEAR(y[0].as<float>()[i], expected, std::abs(expected) * 1e-5) << x[i];
  }
}

TEST(Unary, CircularAndHyperbolicFunctions) {
  for (const char* op : {"sin", "cos", "atan", "asinh", "erfc", "sinh", "cosh"}) {
    compare(op, Attrs(), {f32({1003})}, {.tolerance = 1e-6, .low = -9, .high = 9});
  }
  for (const char* op : {"asin", "acos", "atanh", "erfinv", "tan"}) {
    compare(op, Attrs(), {f32({1003})}, {.tolerance = 1e-6, .low = -0.99, .high = 0.99});
  }
  compare("acosh", Attrs(), {f32({1003})}, {.tolerance = 1e-6, .low = 1, .high = 50});
}

// Where the vector loop has too few digits the library is asked.
TEST(Unary, AnglesOfAnySize) {
  for (double size : {100.0, 9e4, 1e7, 1e20}) {
    for (const char* op : {"sin", "cos"}) {
      compare(op, Attrs(), {f32({1003})}, {.tolerance = 1e-6, .low = -size, .high = size});
    }
  }
}

TEST(Unary, QuestionsAndIntegers) {
  for (const char* op : {"isnan", "isinf", "isfinite", "signbit", "logical_not"}) {
    compare(op, Attrs(), {f32({1003})});
    compare(op, Attrs(), {f16({1003})});
  }
  for (const char* op : {"neg", "abs", "sign", "relu", "bitwise_not", "signbit", "logical_not"}) {
    compare(op, Attrs(), {i32({1003})}, {.tolerance = 0, .top = 5, .bottom = -4});
  }
  for (const char* op : {"logical_not", "bitwise_not"}) compare(op, Attrs(), {TensorType{DType::kBool, {1003}}});
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
  for (double slope : {0.01, -1.5, 0.0}) {
    compare("leaky_relu", Attrs::of(LeakyReluAttrs{slope}), {f32({777})}, {.tolerance = 0});
    compare("leaky_relu_grad", Attrs::of(LeakyReluAttrs{slope}), {f32({777}), f32({777})}, {.tolerance = 0});
  }
  compare("clamp", Attrs::of(ClampAttrs{-0.5, 0.25}), {f32({777})}, {.tolerance = 0});
  compare("clamp_grad", Attrs::of(ClampAttrs{-0.5, 0.25}), {f32({777}), f32({777})}, {.tolerance = 0});
}

TEST(Unary, IntegersAreClampedToWholeBounds) {
  for (double low : {-2.0, -1.5, 0.5, -std::numeric_limits<double>::infinity()}) {
    for (double high : {-3.0, 1.5, -0.5, 2e9, std::numeric_limits<double>::infinity()}) {
      compare("clamp", Attrs::of(ClampAttrs{low, high}), {i32({333})}, {.tolerance = 0, .top = 6, .bottom = -6});
    }
  }
  compare("clamp", Attrs::of(ClampAttrs{1e10, 2e10}), {i32({333})}, {.tolerance = 0, .on_reference = true});
}

TEST(Unary, Gradients) {
  for (const char* op : {"relu_grad", "tanh_grad", "sigmoid_grad", "silu_grad"}) {
    compare(op, Attrs(), {f32({5, 131}), f32({5, 131})}, {.tolerance = 1e-6});
  }
  for (const char* op : {"hardsigmoid_grad", "hardswish_grad"}) {
    compare(op, Attrs(), {f32({5, 131}), f32({5, 131})}, {.tolerance = 1e-6, .low = -5, .high = 5});
  }
}

// The special values of every function, as in <cmath>.
TEST(Unary, InfinitiesAndNan) {
  float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values = {0,       -0.0f,  1,       -1,    inf,    -inf, nan, 88.8f,
                               -104.5f, 1e-40f, -1e-40f, 3e38f, -3e38f, 20,   -20};
  while (values.size() < 40) values.push_back(values[values.size() % 15]);
  auto reference = make_reference_backend();
  for (const char* op : {"exp",  "expm1", "log",   "log1p", "tanh", "sigmoid", "erf",         "relu",     "abs",
                         "sign", "sqrt",  "sin",   "cos",   "tan",  "asin",    "acos",        "atan",     "sinh",
                         "cosh", "asinh", "acosh", "atanh", "erfc", "erfinv",  "hardsigmoid", "hardswish"}) {
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

TEST(Unary, GeluOfInfinities) {
  float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values(40);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? inf : -inf;
  auto gelu = run_kernel(tuned_backend(), request_of("gelu", Attrs::of(GeluAttrs{}), {f32({40})}), {values.data()});
  for (std::size_t i = 0; i < values.size(); i += 2) {
    EXPECT_EQ(gelu[0].as<float>()[i], inf);
    EXPECT_TRUE(std::isnan(gelu[0].as<float>()[i + 1]));  // minus infinity times 0, as in PyTorch
  }
}

TEST(Binary, LossesOfDifferences) {
  for (const Shape& right : {Shape{33, 17}, Shape{17}, Shape{33, 1}, Shape{}}) {
    compare("squared_difference", Attrs(), {f32({33, 17}), f32(right)}, {.tolerance = 1e-6});
    for (HuberAttrs attrs : {HuberAttrs{1, 1}, HuberAttrs{0.3, 2}}) {
      compare("huber", Attrs::of(attrs), {f32({33, 17}), f32(right)}, {.tolerance = 1e-6, .low = -3, .high = 3});
    }
  }
}

TEST(Binary, EveryKindOfBroadcast) {
  for (const char* op : {"add", "sub", "mul", "div", "max", "min", "prelu", "eq", "ne", "lt", "le", "gt", "ge"}) {
    compare(op, Attrs(), {f32({33, 17}), f32({33, 17})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({33, 17}), f32({})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({}), f32({33, 17})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({33, 17}), f32({17})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({33, 1}), f32({33, 17})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({4, 12, 9, 9}), f32({12, 1, 1})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({3, 1, 5}), f32({1, 4, 1})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({700, 3}), f32({3})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({700, 1}), f32({700, 3})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({700, 1}), f32({5})}, {.tolerance = 0});
    compare(op, Attrs(), {f32({2, 350, 3}), f32({350, 1})}, {.tolerance = 0});
  }
}

// Every pair of a left and a right value, as in <cmath>.
void compare_pairs(const std::string& op, const std::vector<float>& lefts, const std::vector<float>& rights) {
  std::vector<float> x, y;
  for (float left : lefts) {
    for (float right : rights) x.push_back(left), y.push_back(right);
  }
  auto n = static_cast<std::int64_t>(x.size());
  KernelRequest request = request_of(op, Attrs(), {f32({n}), f32({n})});
  auto expected = run_kernel(*make_reference_backend(), request, {x.data(), y.data()}),
       actual = run_kernel(tuned_backend(), request, {x.data(), y.data()});
  for (std::size_t i = 0; i < x.size(); ++i) {
    float e = expected[0].as<float>()[i], a = actual[0].as<float>()[i];
    bool same = std::isnan(e) ? std::isnan(a) : e == a || std::abs(e - a) <= std::abs(e) * 1e-6f;
    bool same_sign = e != 0 || std::signbit(e) == std::signbit(a);
    EXPECT_TRUE(same && same_sign) << op << "(" << x[i] << ", " << y[i] << ") is " << a << ", the reference has " << e;
  }
}

TEST(Binary, PowersAnglesAndRemaindersOfSpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> all = {0,    -0.0f, 1,      -1,    kInf,    -kInf, kNan,      2,          -2, 3,
                                  0.5f, -0.5f, 1e-40f, 3e38f, -1e-40f, -3.5f, 16777216., 33554434.f, -7, 1e10f};
  // Quotients that a vector loop computes, without a large one among them.
  const std::vector<float> tops = {0, -0.0f, 1, -1, 2.5f, -7, kNan, 1e6f, -12345.678f};
  const std::vector<float> bottoms = {kInf, -kInf, kNan, 2, -2, 0.5f, 3, 0.1f, -0.37f, 1e9f};
  for (const char* op : {"pow", "atan2", "rem_floor", "rem_trunc", "div_floor", "div_trunc"}) {
    compare_pairs(op, all, all);
    compare_pairs(op, tops, bottoms);
  }
}

// One exponent for all takes shorter ways.
TEST(Binary, PowersWithOneExponent) {
  for (float exponent : {2.0f, 3.0f, 0.5f, -0.5f, 1.0f, -1.0f, -2.0f, 0.0f, 2.5f, -3.0f}) {
    KernelRequest request = request_of("pow", Attrs(), {f32({333}), f32({})});
    std::mt19937 random(7);
    Buffer x = random_buffer(f32({333}), random, 0.1, 9, 2);
    auto expected = run_kernel(*make_reference_backend(), request, {x.get(), &exponent}),
         actual = run_kernel(tuned_backend(), request, {x.get(), &exponent});
    expect_close(f32({333}), expected[0], actual[0], 1e-6, fmt::format("pow by {}", exponent));
  }
}

TEST(Binary, QuotientsAndPowersBroadcast) {
  for (const char* op : {"pow", "atan2", "rem_floor", "rem_trunc", "div_floor", "div_trunc"}) {
    for (const InputTypes& types : {InputTypes{f32({33, 17}), f32({33, 17})}, InputTypes{f32({33, 17}), f32({})},
                                    InputTypes{f32({}), f32({900})}, InputTypes{f32({33, 1}), f32({33, 600})}}) {
      compare(op, Attrs(), types, {.tolerance = 1e-6, .low = 0.1, .high = 20});
    }
    compare(op, Attrs(), {f16({4, 700}), f16({700})}, {.tolerance = 1e-3, .low = 0.1, .high = 4});
  }
}

TEST(Binary, IntegersAndBools) {
  TensorType flags{DType::kBool, {33, 17}}, flag_row{DType::kBool, {17}}, flag_column{DType::kBool, {33, 1}};
  for (const char* op : {"add",         "sub",    "mul",   "max",    "min", "div_trunc", "div_floor",   "rem_trunc",
                         "rem_floor",   "bitand", "bitor", "bitxor", "shl", "shr",       "logical_and", "logical_or",
                         "logical_xor", "eq",     "ne",    "lt",     "le",  "gt",        "ge"}) {
    for (const Shape& right : {Shape{33, 17}, Shape{17}, Shape{33, 1}, Shape{}}) {
      CompareOptions options{.tolerance = 0, .top = 40, .bottom = -9};
      compare(op, Attrs(), {i32({33, 17}), i32(right)}, options);
      compare(op, Attrs(), {i32(right), i32({33, 17})}, options);
    }
  }
  for (const char* op : {"add", "mul", "max", "min", "bitand", "bitor", "bitxor", "logical_and", "logical_or",
                         "logical_xor", "eq", "ne", "lt", "le", "gt", "ge"}) {
    compare(op, Attrs(), {flags, flags});
    compare(op, Attrs(), {flags, flag_row});
    compare(op, Attrs(), {flag_column, flags});
    compare(op, Attrs(), {TensorType{DType::kBool, {700, 5}}, TensorType{DType::kBool, {700, 1}}});
  }
}

// Where two's complement and C++ disagree about what is defined.
TEST(Binary, IntegersAtTheirLimits) {
  std::int32_t least = std::numeric_limits<std::int32_t>::min(), most = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::int32_t> values = {least, least + 1, -2, -1, 0, 1, 2, 31, 32, 33, most - 1, most};
  std::vector<std::int32_t> left, right;
  for (std::int32_t x : values) {
    for (std::int32_t y : values) left.push_back(x), right.push_back(y);
  }
  for (const char* op : {"add", "sub", "mul", "max", "min", "div_trunc", "div_floor", "rem_trunc", "rem_floor", "shl",
                         "shr", "lt", "ge"}) {
    KernelRequest request = request_of(op, Attrs(), {i32({144}), i32({144})});
    auto expected = run_kernel(*make_reference_backend(), request, {left.data(), right.data()}),
         actual = run_kernel(tuned_backend(), request, {left.data(), right.data()});
    expect_close(request.outputs[0], expected[0], actual[0], 0, op);
  }
}

TEST(Binary, LogicAndComparisonsOfFloats) {
  for (const char* op : {"logical_and", "logical_or", "logical_xor"}) {
    compare(op, Attrs(), {f32({33, 17}), f32({17})});
    compare(op, Attrs(), {f16({33, 17}), f16({17})});
  }
  compare("lt", Attrs(), {f16({33, 17}), f16({33, 1})});
  compare("eq", Attrs(), {bf16({33, 17}), bf16({})});
}

TEST(Select, EveryTypeAndBroadcast) {
  TensorType flags{DType::kBool, {33, 17}}, flag_row{DType::kBool, {17}}, flag_column{DType::kBool, {33, 1}};
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI16, DType::kU8, DType::kBool}) {
    TensorType x{type, {33, 17}}, row{type, {17}}, one{type, {}};
    for (const InputTypes& types :
         {InputTypes{flags, x, x}, InputTypes{flag_row, x, row}, InputTypes{flag_column, one, x},
          InputTypes{flags, one, one}, InputTypes{flags, x, one}}) {
      compare("select", Attrs(), types, {.tolerance = 0});
    }
  }
}

TEST(Addcmul, EveryKindOfBroadcast) {
  const std::vector<Shape> shapes = {Shape{6, 50}, Shape{50}, Shape{6, 1}, Shape{}};
  for (const Shape& x : shapes) {
    for (const Shape& a : shapes) {
      for (const Shape& b : shapes) {
        compare("addcmul", Attrs::of(AddcmulAttrs{0.5}), {f32(x), f32(a), f32(b)}, {.tolerance = 1e-6});
      }
    }
  }
  compare("addcmul", Attrs::of(AddcmulAttrs{-2}), {f16({1003}), f16({1003}), f16({1003})}, {.tolerance = 1e-3});
}

TEST(Binary, HalfBroadcasts) {
  compare("add", Attrs(), {f16({4, 700}), f16({700})}, {.tolerance = 0});
  compare("mul", Attrs(), {f16({4, 700}), f16({4, 1})}, {.tolerance = 0});
  compare("sub", Attrs(), {f16({}), f16({4, 700})}, {.tolerance = 0});
  compare("sub", Attrs(), {f16({700, 3}), f16({700, 1})}, {.tolerance = 0});
}

}  // namespace
}  // namespace aspen::testing
