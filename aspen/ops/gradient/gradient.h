// Attributes of the ops that lead gradients another way than the values.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// custom_gradient(y_0.., x_0..) -> y_0..: the first `outputs` inputs, computed from the others in a way the compiler
// does not look at; `function` knows the gradients by the x.
struct CustomGradientAttrs {
  std::shared_ptr<CustomGradient> function;
  std::int64_t outputs = 1;

  void visit(AttrVisitor& v) {
    v("function", function);
    v("outputs", outputs);
  }
};

// gradient_hook(x): `function` is shown the whole gradient by x and may answer with another one.
struct GradientHookAttrs {
  std::shared_ptr<CustomGradient> function;

  void visit(AttrVisitor& v) { v("function", function); }
};

}  // namespace aspen
