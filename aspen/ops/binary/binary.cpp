// Elementwise ops of two inputs, a table row each. Operands broadcast by numpy rules and have equal element types.
// In the gradient formulas a and b are the inputs, y the output and g the gradient of y.
#include "aspen/ops/binary/binary.h"

#include <cmath>

#include "aspen/ops/build.h"
#include "aspen/ops/infer.h"
#include "aspen/ops/source/source.h"
#include "aspen/ops/unary/unary.h"

namespace aspen {
namespace {

// The gradient by one input before it is summed down to the input's shape; nullptr: exactly zero.
using Rule = Value* (*)(GradientContext& c);

Value* a(GradientContext& c) { return c.in(0); }
Value* b(GradientContext& c) { return c.in(1); }
Value* pass(GradientContext& c) { return c.grad(); }
Value* pass_negated(GradientContext& c) { return build::neg(c.b, c.grad()); }
Value* times(GradientContext& c, Value* factor) { return build::mul(c.b, c.grad(), factor); }
Value* zero(GradientContext&) { return nullptr; }
Value* scalar(GradientContext& c, double value) { return build::scalar(c.b, c.grad()->dtype(), value); }

// The number an input is, when it is the same everywhere and known.
const double* known_number(const Value* value) {
  const Op* op = value->producer();
  return op != nullptr && op->is("full") ? &op->attrs<FullAttrs>().value : nullptr;
}

// g * b * a^(b - 1), and 0 where b is 0 (else 0 * inf at a = 0).
Value* pow_base(GradientContext& c) {
  if (const double* exponent = known_number(b(c))) {
    if (*exponent == 0) return zero(c);
    if (*exponent == 1) return c.grad();
    Value* power = *exponent == 2 ? a(c) : build::binary(c.b, "pow", a(c), *exponent - 1);
    return times(c, build::mul(c.b, power, *exponent));
  }
  Value* power = build::binary(c.b, "pow", a(c), build::add(c.b, b(c), -1));
  Value* slope = build::mul(c.b, b(c), power);
  return times(c, build::select(c.b, build::binary(c.b, "eq", b(c), 0.0), scalar(c, 0), slope));
}

// g * y * log(a), and 0 where a is 0 and b >= 0.
Value* pow_exponent(GradientContext& c) {
  Value* slope = build::mul(c.b, c.out(), build::unary(c.b, "log", a(c)));
  Value* flat =
      build::binary(c.b, "logical_and", build::binary(c.b, "eq", a(c), 0.0), build::binary(c.b, "ge", b(c), 0.0));
  return times(c, build::select(c.b, flat, scalar(c, 0), slope));
}

// All of g to the winner, half each on a tie; where NaN is involved both receive g, as in PyTorch.
template <std::size_t input, bool is_max>
Value* extremum(GradientContext& c) {
  Value* half = build::mul(c.b, c.grad(), 0.5);
  const char* loses = (input == 0) == is_max ? "lt" : "gt";
  Value* kept = build::select(c.b, build::binary(c.b, loses, a(c), b(c)), scalar(c, 0), c.grad());
  return build::select(c.b, build::binary(c.b, "eq", a(c), b(c)), half, kept);
}

Value* difference(GradientContext& c) { return build::sub(c.b, a(c), b(c)); }
Value* twice_difference(GradientContext& c) { return times(c, build::mul(c.b, difference(c), 2)); }
// Straight from the kinks on.
Value* huber_slope(GradientContext& c) {
  auto [delta, slope] = c.attrs<HuberAttrs>();
  Value* cut = c.b.make("clamp", {difference(c)}, ClampAttrs{-delta, delta});
  return times(c, delta == slope ? cut : build::mul(c.b, cut, slope / delta));
}

Value* is_positive(GradientContext& c) { return build::binary(c.b, "gt", a(c), 0.0); }

// a / (a^2 + b^2) or the same with b above: the slopes of atan2.
Value* over_squares(GradientContext& c, Value* top) {
  Value* squares = build::add(c.b, build::mul(c.b, a(c), a(c)), build::mul(c.b, b(c), b(c)));
  return times(c, build::div(c.b, top, squares));
}

template <const char* divide>
Value* remainder_divisor(GradientContext& c) {
  return times(c, build::neg(c.b, build::binary(c.b, divide, a(c), b(c))));
}

constexpr char kDivFloor[] = "div_floor", kDivTrunc[] = "div_trunc";

struct Row {
  const char* name;
  const char* summary;
  ElementKind kind;
  double low, high;
  Rule by_a, by_b;  // nullptr: no gradient
  bool is_quick = false;
};

constexpr bool kQuick = true;

constexpr auto kAny = ElementKind::kAny;
constexpr auto kFloating = ElementKind::kFloating;
constexpr auto kNumeric = ElementKind::kNumeric;

const Row kRows[] = {
    {"add", "a + b; of bools: or.", kAny, -1, 1, pass, pass, kQuick},
    {"sub", "a - b", kNumeric, -1, 1, pass, pass_negated, kQuick},
    {"mul", "a * b; of bools: and.", kAny, -1, 1, [](auto& c) { return times(c, b(c)); },
     [](auto& c) { return times(c, a(c)); }, kQuick},
    {"div", "a / b", kFloating, 0.3, 2, [](auto& c) { return build::div(c.b, c.grad(), b(c)); },
     [](auto& c) { return times(c, build::neg(c.b, build::div(c.b, c.out(), b(c)))); }},
    {"pow", "a^b; of integers, a negative b gives 0 unless a is 1 or -1.", kNumeric, 0.3, 2, pow_base, pow_exponent},
    {"max", "The larger; NaN wins, a tie shares the gradient.", kAny, -1, 1, extremum<0, true>, extremum<1, true>,
     kQuick},
    {"min", "The smaller; NaN wins, a tie shares the gradient.", kAny, -1, 1, extremum<0, false>, extremum<1, false>,
     kQuick},
    {"prelu", "a where a > 0, else a * b.", kFloating, -1, 1,
     [](auto& c) { return build::select(c.b, is_positive(c), c.grad(), times(c, b(c))); },
     [](auto& c) { return build::select(c.b, is_positive(c), scalar(c, 0), times(c, a(c))); }, kQuick},
    {"squared_difference", "(a - b)^2", kFloating, -1, 1, twice_difference,
     [](auto& c) { return build::neg(c.b, twice_difference(c)); }, kQuick},
    {"atan2", "Angle of the point (b, a).", kFloating, -1, 1, [](auto& c) { return over_squares(c, b(c)); },
     [](auto& c) { return over_squares(c, build::neg(c.b, a(c))); }},
    {"rem_floor", "Remainder with the sign of b; of integers, by 0 it is a.", kNumeric, 0.3, 2, pass,
     remainder_divisor<kDivFloor>},
    {"rem_trunc", "Remainder with the sign of a; of integers, by 0 it is a.", kNumeric, 0.3, 2, pass,
     remainder_divisor<kDivTrunc>},
    {"div_floor", "a / b rounded down; of integers, by 0 it is 0.", kNumeric, 0.3, 2, zero, zero},
    {"div_trunc", "a / b rounded toward 0; of integers, by 0 it is 0.", kNumeric, 0.3, 2, zero, zero},
    {"bitand", "a & b", ElementKind::kIntegral, 0, 0, nullptr, nullptr, kQuick},
    {"bitor", "a | b", ElementKind::kIntegral, 0, 0, nullptr, nullptr, kQuick},
    {"bitxor", "a ^ b", ElementKind::kIntegral, 0, 0, nullptr, nullptr, kQuick},
    {"shl", "a << b; 0 when b is negative or as large as the type.", ElementKind::kInteger, 0, 0, nullptr, nullptr},
    {"shr", "a >> b, keeping the sign; the sign alone when b is negative or as large as the type.",
     ElementKind::kInteger, 0, 0, nullptr, nullptr},
};

const Row kBoolRows[] = {
    {"logical_and", "Are both not 0?", kAny, -1, 1, nullptr, nullptr, kQuick},
    {"logical_or", "Is any not 0?", kAny, -1, 1, nullptr, nullptr, kQuick},
    {"logical_xor", "Is exactly one not 0?", kAny, -1, 1, nullptr, nullptr, kQuick},
};

void add_examples(OpDef& op, const Row& row) {
  auto example = [&](DType type, Shape left, Shape right) {
    op.example({.inputs = {{type, std::move(left)}, {type, std::move(right)}},
                .low = row.low,
                .high = row.high,
                .int_low = type == DType::kBool ? 0 : -3,
                .int_high = type == DType::kBool ? 2 : 4});
  };
  if (accepts(row.kind, DType::kF32)) {
    example(DType::kF32, {5, 7}, {5, 7});
    example(DType::kF32, {2, 3, 4}, {3, 1});
    example(DType::kF32, {2, 0, 3}, {2, 1, 3});
    example(DType::kF32, {}, {2, 3});
    example(DType::kF32, {4, 1}, {1, 5});
    example(DType::kF32, {3, 37}, {37});
  }
  if (accepts(row.kind, DType::kI32)) {
    example(DType::kI32, {6, 7}, {6, 7});
    example(DType::kI32, {3, 37}, {3, 1});
    example(DType::kI32, {}, {5, 21});
    example(DType::kI8, {6, 7}, {7});
  }
  if (accepts(row.kind, DType::kBool)) {
    example(DType::kBool, {37}, {37});
    example(DType::kBool, {5, 21}, {5, 1});
  }
}

void set_gradients(OpDef& op, Rule by_a, Rule by_b) {
  op.gradient([rules = std::array{by_a, by_b}](GradientContext& c) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (!c.needs(i)) continue;
      Value* gradient = rules[i](c);
      gradient != nullptr ? c.set(i, build::reduce_to(c.b, gradient, c.in(i)->shape())) : c.zero(i);
    }
  });
}

OpDef& define_row(OpRegistry& ops, const Row& row) {
  OpDef& op = ops.define(row.name)
                  .summary(row.summary)
                  .input("a", std::string(name_of(row.kind)))
                  .input("b", "type of a; shapes broadcast")
                  .broadcasts();
  if (row.is_quick) op.quick();
  if (row.by_a != nullptr) set_gradients(op, row.by_a, row.by_b);
  add_examples(op, row);
  return op;
}

void define_huber(OpRegistry& ops) {
  OpDef& op =
      ops.define<HuberAttrs>("huber")
          .summary("d^2 * slope / (2 * delta) of d = a - b up to |d| = delta, from there on lines of that slope.")
          .input("a", "floating point")
          .input("b", "type of a; shapes broadcast")
          .output("y", "type of a, broadcast shape")
          .infer(elementwise(kFloating))
          .broadcasts()
          .quick()
          .inplace(0, 0)
          .inplace(0, 1);
  set_gradients(op, huber_slope, [](auto& c) { return build::neg(c.b, huber_slope(c)); });
  for (HuberAttrs attrs : {HuberAttrs{}, HuberAttrs{0.5, 2}}) {
    for (const Shape& right : {Shape{3, 37}, Shape{37}, Shape{}}) {
      op.example(
          {.inputs = {{DType::kF32, {3, 37}}, {DType::kF32, right}}, .attrs = Attrs::of(attrs), .low = -2, .high = 2});
    }
  }
}

}  // namespace

void define_binary(OpRegistry& ops) {
  for (const Row& row : kRows) {
    define_row(ops, row)
        .output("y", "type of a, broadcast shape")
        .infer(elementwise(row.kind))
        .inplace(0, 0)
        .inplace(0, 1);
  }
  for (const Row& row : kBoolRows) {
    define_row(ops, row).output("y", "bool, broadcast shape").infer(elementwise_to_bool(row.kind));
  }
  define_huber(ops);
}

}  // namespace aspen
