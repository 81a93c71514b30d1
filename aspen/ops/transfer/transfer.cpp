// Ops that move bytes between devices, and to and from memory off the devices. Made by the compiler alone, after
// autodiff: they need no gradient.
#include "aspen/ops/transfer/transfer.h"

#include "aspen/ops/infer.h"

namespace aspen {
namespace {

template <class A = NoAttrs>
OpDef& define_transfer(OpRegistry& ops, const std::string& name, const std::string& summary) {
  return ops.define<A>(name)
      .summary(summary)
      .input("x", "any type")
      .output("y", "x")
      .infer(same_types(ElementKind::kAny))
      .example({.inputs = {{DType::kF32, {3, 5}}}, .attrs = Attrs::of(A{})})
      .example({.inputs = {{DType::kBool, {7}}}, .attrs = Attrs::of(A{})})
      .example({.inputs = {{DType::kI32, {}}}, .attrs = Attrs::of(A{})});
}

}  // namespace

void define_transfer(OpRegistry& ops) {
  define_transfer<SendAttrs>(ops, "send", "x, in the memory of a lane, where other tasks and devices may read it.")
      .takes_wide();  // an input on its way to the device that narrows it
  define_transfer<StoreAttrs>(ops, "store", "x, kept off the device on behalf of a lane until it is loaded.");
  define_transfer(ops, "load", "x, fetched to the device: a stored value, or a variable kept off the device.");
}

}  // namespace aspen
