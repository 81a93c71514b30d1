// Identities that mean something to the compiler, and the store into a variable.
#include "aspen/ops/marker/marker.h"

#include <algorithm>
#include <array>

#include "aspen/compiler/ir/builder.h"
#include "aspen/ops/infer.h"

namespace aspen {
namespace {

// An op y = x; the caller adds what sets it apart.
template <class A = NoAttrs>
OpDef& define_identity(OpRegistry& ops, const std::string& name, const std::string& summary) {
  return ops.define<A>(name)
      .summary(summary)
      .input("x", "any type")
      .output("y", "x")
      .infer(same_types(ElementKind::kAny))
      .example({.inputs = {{DType::kF32, {3, 5}}}});
}

void pass_gradient(GradientContext& c) { c.set(0, c.grad()); }

std::vector<TensorType> infer_print(const InferContext& c) {
  const auto& attrs = c.attrs<PrintAttrs>();
  constexpr std::array<std::string_view, 4> kFormats{"auto", "fixed", "scientific", "none"};
  c.check(std::find(kFormats.begin(), kFormats.end(), attrs.float_format) != kFormats.end(),
          "unknown float_format \"{}\"; the formats are auto, fixed, scientific and none.", attrs.float_format);
  return {c.in(0)};
}

void print_gradient(GradientContext& c) {
  PrintAttrs attrs = c.attrs<PrintAttrs>();
  if (!attrs.print_gradient) return c.set(0, c.grad());
  attrs.title += "_gradient";
  c.set(0, c.b.make("print", {c.grad()}, attrs));
}

std::vector<TensorType> infer_assign(const InferContext& c) {
  c.check(c.in(0) == c.in(1), "a variable of type {} cannot hold {}; cast or reshape the value.", to_string(c.in(0)),
          to_string(c.in(1)));
  return {};
}

}  // namespace

void define_marker(OpRegistry& ops) {
  define_identity(ops, "detach", "x, with no gradient flowing back.").alias().marker().stops_gradients();
  define_identity(ops, "nop", "x, by an op that is never optimised away.")
      .impure()
      .inplace(0, 0)
      .gradient(pass_gradient);
  define_identity(ops, "checkpoint", "x, kept for the backward pass rather than computed again.")
      .alias()
      .gradient(pass_gradient);
  define_identity(ops, "loss", "x, marked as the loss: training differentiates from here.")
      .alias()
      .marker()
      .gradient(pass_gradient);

  ops.define<PrintAttrs>("print")
      .summary("x, written to standard error each time the op runs; dropped if nothing uses the result.")
      .input("x", "any type")
      .output("y", "x")
      .infer(infer_print)
      .inplace(0, 0)
      .impure()
      .droppable()  // as poptorch.ipu_print_tensor promises
      .gradient(print_gradient)
      .example({.inputs = {{DType::kF32, {2, 3}}},
                .attrs = Attrs::of(PrintAttrs{.title = "example", .print_gradient = false})});

  // The compiler lowers it to the kernel "assign" with the variable's buffer as output 0.
  ops.define("assign")
      .summary("Stores x in a variable; readers of the variable see it from the next run of the section on.")
      .input("variable", "value of the variable")
      .input("x", "what it holds afterwards, same type")
      .impure()
      .infer(infer_assign);
}

}  // namespace aspen
