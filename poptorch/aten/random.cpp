// Random numbers and dropout. Every op draws from a stream of its own; the numbers are the device's, only their
// distributions are torch's. Nothing here has a gradient except what dropout multiplies. Distributions with tensors as
// parameters: distributions.cpp.
#include <cmath>

#include "aspen/ops/random/random.h"
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

// Uniform on [0, 1) or standard normal.
Expr draw(Call& call, const char* op, Shape shape, DType dtype = DType::kF32) {
  return expr(call, call.b.make(op, {}, aspen::RandomAttrs{dtype, std::move(shape), call.new_stream()}));
}
Expr uniform(Call& call, Shape shape) { return draw(call, "random_uniform", std::move(shape)); }
Expr normal(Call& call, Shape shape) { return draw(call, "random_normal", std::move(shape)); }

void give(Call& call, Expr x, ScalarType type) { call.result(cast(x, graph_dtype(type)).v, type); }
// The in-place forms whose functional twin has another name.
void overwrite(Call& call, Expr x) {
  call.write("self", x.v);
  call.same("self");
}

// dropout(Tensor input, float p, bool train)
void dropout(Call& call) {
  double p = call.number("p");
  if (!(p >= 0 && p <= 1)) throw UserError("[dropout] probability {} is not between 0 and 1.", p);
  Value* x = call.value("input");
  if (!call.boolean("train") || p == 0) return call.result(x, call.dtype("input"));
  if (p == 1) return call.result((expr(call, x) * 0.0).v, call.dtype("input"));
  call.result(call.b.make("dropout", {x}, aspen::DropoutAttrs{p, call.new_stream()}), call.dtype("input"));
}

// 0 or 1, the latter with probability `keep`.
Expr mask(Call& call, Shape shape, double keep, DType dtype) {
  return cast(uniform(call, std::move(shape)) < keep, dtype);
}

// x where the mask is set, over the probability of that; then the mask itself
void give_masked(Call& call, std::string_view argument, double keep, ScalarType mask_type) {
  Expr x = expr(call, call.value(argument));
  Expr kept = uniform(call, x.shape()) >= 1 - keep;
  Expr factor = cast(kept, DType::kF32) * (keep > 0 ? 1 / keep : 0.0);
  call.result((x * cast(factor, x.dtype())).v, call.dtype(argument));
  call.result(cast(kept, graph_dtype(mask_type)).v, mask_type);
}
// native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor mask)
void native_dropout(Call& call) {
  double p = call.number("p");
  if (!(p >= 0 && p <= 1)) throw UserError("[native_dropout] probability {} is not between 0 and 1.", p);
  bool train = !call.has("train") || call.boolean("train");
  give_masked(call, "input", train ? 1 - p : 1, ScalarType::Bool);
}
// _fused_dropout(Tensor self, float p, Generator? generator=None) -> (Tensor, Tensor mask): p is that of keeping
void fused_dropout(Call& call) { give_masked(call, "self", call.number("p"), ScalarType::Byte); }

Shape feature_shape(const Expr& x) {
  if (x.rank() < 2) throw UserError("[feature_dropout] needs at least 2 axes, not shape {}.", to_string(x.shape()));
  Shape shape(x.shape().size(), 1);
  shape[0] = x.size(0);
  shape[1] = x.size(1);
  return shape;
}

// feature_dropout(Tensor input, float p, bool train): whole channels at once
void feature_dropout(Call& call) {
  double p = call.number("p");
  Expr x = expr(call, call.value("input"));
  if (!call.boolean("train") || p == 0) return call.result(x.v, call.dtype("input"));
  if (p == 1) return call.result((x * 0.0).v, call.dtype("input"));
  Expr factor = mask(call, feature_shape(x), 1 - p, DType::kF32) * (1 / (1 - p));
  call.result((x * cast(factor, x.dtype())).v, call.dtype("input"));
}

// alpha_dropout(Tensor input, float p, bool train), feature_alpha_dropout(...): what is dropped becomes the limit of
// selu, then mean and variance are restored: a * (x * m - alpha' * (1 - m)) + b
Handler alpha_dropout(bool features) {
  return [features](Call& call) {
    double p = call.number("p");
    Expr x = expr(call, call.value("input"));
    if (!call.boolean("train") || p == 0) return call.result(x.v, call.dtype("input"));
    if (p == 1) return call.result((x * 0.0).v, call.dtype("input"));
    constexpr double kAlpha = 1.7580993408473766;
    double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p)), b = kAlpha * a * p;
    Expr kept = uniform(call, features ? feature_shape(x) : x.shape()) < 1 - p;
    Expr wide = in_float(x);
    call.result(cast(where(kept, wide * a + b, full(call.b, wide.dtype(), {}, b - kAlpha * a)), x.dtype()).v,
                call.dtype("input"));
  };
}

// Drawn in their very type: rounding a finer number below 1 could give 1.
void give_drawn(Call& call, const char* op, Shape shape, ScalarType type) {
  const DType dtype = graph_dtype(type);
  give(call, draw(call, op, std::move(shape), aspen::is_floating(dtype) ? dtype : DType::kF32), type);
}

// rand(int[] size, *, ScalarType? dtype=None, ...), randn(...), and .generator
Handler sized(const char* op) {
  return [op](Call& call) {
    give_drawn(call, op, call.integers("size"), call.dtype_option("dtype").value_or(default_float()));
  };
}
// rand_like(Tensor self, *, ScalarType? dtype=None, ...), randn_like(...)
Handler like(const char* op) {
  return [op](Call& call) {
    give_drawn(call, op, call.value("self")->shape(), call.dtype_option("dtype").value_or(call.dtype("self")));
  };
}

// Integers of [low, high). A float32 uniform has 24 bits: wider ranges are the remainder of a 31-bit number made of
// two draws, uneven by less than range / 2^31 as remainders are.
Expr integers_between(Call& call, Shape shape, double low, double high) {
  double range = high - low;
  if (!(range > 0))
    throw UserError("[{}] the range from {} to {} is empty; expected from < to.", call.name(), low, high);
  if (range > 2147483647.0) decline("a range of random integers beyond 31 bits");
  constexpr double kColumns = 1 << 22, kRows = 511;
  if (range <= kColumns) return cast(clamp(floor(uniform(call, shape) * range), 0, range - 1), DType::kI32) + low;
  Expr row = cast(floor(uniform(call, shape) * kRows), DType::kI32);
  Expr column = cast(floor(uniform(call, shape) * kColumns), DType::kI32);
  return binary("rem_floor", row * kColumns + column, range) + low;
}

// randint(int high, int[] size, *, ScalarType? dtype=4, ...), randint.low(int low, int high, int[] size, ...),
// .generator forms
void randint(Call& call) {
  give(call, integers_between(call, call.integers("size"), number_or(call, "low", 0), call.number("high")),
       call.dtype_option("dtype").value_or(ScalarType::Long));
}
// randint_like(Tensor self, int high, *, ScalarType? dtype=None, ...), randint_like.low_dtype(Tensor self, int low, int
// high, ...)
void randint_like(Call& call) {
  give(call, integers_between(call, call.value("self")->shape(), number_or(call, "low", 0), call.number("high")),
       call.dtype_option("dtype").value_or(call.dtype("self")));
}

double largest_random(ScalarType type) {
  switch (type) {
    case ScalarType::Half: return 2049;  // 2^11 + 1: all integers up to there are exact
    case ScalarType::BFloat16: return 257;
    case ScalarType::Float:
    case ScalarType::Double: return 16777217;
    case ScalarType::Byte: return 256;
    case ScalarType::Char: return 128;
    case ScalarType::Short: return 32768;
    case ScalarType::Bool: return 2;
    default: return 2147483647;
  }
}

// random(Tensor self), random.to(Tensor self, int to), random.from(Tensor self, int from, int? to)
void random_integers(Call& call) {
  ScalarType type = call.dtype("self");
  double to = call.has("to") ? call.number("to") : largest_random(type);
  give(call, integers_between(call, call.value("self")->shape(), number_or(call, "from", 0), to), type);
}

// randperm(int n, *, ScalarType? dtype=4, ...), randperm.generator(...)
void randperm(Call& call) {
  aspen::RandomPermutationAttrs attrs{call.integer("n"), call.new_stream()};
  give(call, expr(call, call.b.make("random_permutation", {}, attrs)),
       call.dtype_option("dtype").value_or(ScalarType::Long));
}

// normal.float_float(float mean, float std, int[] size, *, ScalarType? dtype=None, ...)
void normal_numbers(Call& call) {
  Expr x = normal(call, call.integers("size")) * call.number("std") + call.number("mean");
  give(call, x, call.dtype_option("dtype").value_or(default_float()));
}

// normal.Tensor_float(Tensor mean, float std=1.), normal.float_Tensor(float mean, Tensor std),
// normal.Tensor_Tensor(Tensor mean, Tensor std): torch gives neither a gradient
void normal_tensors(Call& call) {
  auto tensor = [&](const char* name) { return call.raw(name).isTensor(); };
  auto value = [&](const char* name) {
    return tensor(name) ? detach(in_float(expr(call, call.value(name))))
                        : full(call.b, DType::kF32, {}, call.number(name));
  };
  Expr mean_value = value("mean"), deviation = value("std");
  Shape shape = aspen::broadcast_shapes(mean_value.shape(), deviation.shape(), "normal");
  give(call, normal(call, shape) * deviation + mean_value, call.dtype(tensor("mean") ? "mean" : "std"));
}

Expr normal_like_self(Call& call) {
  return normal(call, call.value("self")->shape()) * call.number("std") + call.number("mean");
}

// uniform(Tensor self, float from=0., float to=1.)
void uniform_between(Call& call) {
  double from = call.number("from"), to = call.number("to");
  give(call, uniform(call, call.value("self")->shape()) * (to - from) + from, call.dtype("self"));
}

// exponential(Tensor self, float lambd=1.): -log(1 - u) / lambda
void exponential(Call& call) {
  Expr u = uniform(call, call.value("self")->shape());
  give(call, log1p(-u) * (-1 / call.number("lambd")), call.dtype("self"));
}

// geometric(Tensor self, float p): ceil(log(1 - u) / log(1 - p)), at least 1
void geometric(Call& call) {
  double p = call.number("p");
  Expr u = uniform(call, call.value("self")->shape());
  Expr count = unary("ceil", log1p(-u) * (1 / std::log1p(-p)));
  give(call, clamp(count, 1, std::numeric_limits<float>::infinity()), call.dtype("self"));
}

// cauchy(Tensor self, float median=0., float sigma=1.): median + sigma * tan(pi (u - 1/2))
void cauchy(Call& call) {
  Expr u = uniform(call, call.value("self")->shape());
  give(call, unary("tan", (u - 0.5) * 3.14159265358979323846) * call.number("sigma") + call.number("median"),
       call.dtype("self"));
}

// log_normal(Tensor self, float mean=1., float std=2.)
void log_normal(Call& call) { give(call, exp(normal_like_self(call)), call.dtype("self")); }

// bernoulli(Tensor self): self holds the probabilities
void bernoulli(Call& call) {
  Expr p = in_float(expr(call, call.value("self")));
  give(call, uniform(call, p.shape()) < detach(p), call.dtype("self"));
}
// bernoulli.p(Tensor self, float p)
void bernoulli_p(Call& call) {
  give(call, uniform(call, call.value("self")->shape()) < call.number("p"), call.dtype("self"));
}
// bernoulli.Tensor(Tensor self, Tensor p)
void bernoulli_tensor(Call& call) {
  Expr p = broadcast(in_float(expr(call, call.value("p"))), call.value("self")->shape());
  give(call, uniform(call, p.shape()) < detach(p), call.dtype("self"));
}
// bernoulli_.float(Tensor(a!) self, float p=0.5)
void bernoulli_in_place(Call& call) { overwrite(call, uniform(call, call.value("self")->shape()) < call.number("p")); }
// normal_functional(Tensor self, float mean=0., float std=1.)
void normal_functional(Call& call) { give(call, normal_like_self(call), call.dtype("self")); }
// normal_(Tensor(a!) self, float mean=0., float std=1.)
void normal_in_place(Call& call) { overwrite(call, normal_like_self(call)); }

}  // namespace

void register_random(HandlerTable& table) {
  table.add("aten::dropout", dropout);
  table.add("aten::native_dropout", native_dropout);
  table.add("aten::_fused_dropout", fused_dropout);
  table.add("aten::feature_dropout", feature_dropout);
  table.add("aten::alpha_dropout", alpha_dropout(false));
  table.add("aten::feature_alpha_dropout", alpha_dropout(true));
  table.add("aten::rand", sized("random_uniform"));
  table.add("aten::rand.generator", sized("random_uniform"));
  table.add("aten::randn", sized("random_normal"));
  table.add("aten::randn.generator", sized("random_normal"));
  table.add("aten::rand_like", like("random_uniform"));
  table.add("aten::randn_like", like("random_normal"));
  for (const char* overload : {"", ".generator", ".low", ".low_generator"})
    table.add(std::string("aten::randint") + overload, randint);
  table.add("aten::randint_like", randint_like);
  table.add("aten::randint_like.low_dtype", randint_like);
  for (const char* overload : {"", ".to", ".from"}) table.add(std::string("aten::random") + overload, random_integers);
  table.add("aten::randperm", randperm);
  table.add("aten::randperm.generator", randperm);
  table.add("aten::normal.float_float", normal_numbers);
  for (const char* overload : {".Tensor_float", ".float_Tensor", ".Tensor_Tensor"}) {
    table.add(std::string("aten::normal") + overload, normal_tensors);
  }
  table.add("aten::normal_", normal_in_place);
  table.add("aten::normal_functional", normal_functional);
  table.add("aten::uniform", uniform_between);
  table.add("aten::exponential", exponential);
  table.add("aten::geometric", geometric);
  table.add("aten::cauchy", cauchy);
  table.add("aten::log_normal", log_normal);
  table.add("aten::bernoulli", bernoulli);
  table.add("aten::bernoulli.p", bernoulli_p);
  table.add("aten::bernoulli.Tensor", bernoulli_tensor);
  table.add("aten::bernoulli_.float", bernoulli_in_place);
}

}  // namespace poptorch
