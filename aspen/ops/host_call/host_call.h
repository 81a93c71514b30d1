// Attributes of host_call.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// host_call(inputs...): work of the front end on the host, with or without outputs.
struct HostCallAttrs {
  std::shared_ptr<HostFunction> function;
  std::shared_ptr<HostFunction> gradient;    // (inputs..., output gradients...) -> one gradient per input named below
  std::vector<std::int64_t> differentiable;  // inputs the gradient function yields, in order
  std::string outputs;                       // types of the outputs: "f32[2, 3]; i32[4]"; none: ""
  bool absent_gradients = false;     // output gradients that do not arrive are no buffers for `gradient`, else zeros
  std::vector<std::int64_t> absent;  // which inputs of `function` are none, in order; the op's inputs are the others

  void visit(AttrVisitor& v) {
    v("function", function);
    v("gradient", gradient);
    v("differentiable", differentiable);
    v("outputs", outputs);
    v("absent_gradients", absent_gradients);
    v("absent", absent);
  }
};

}  // namespace aspen
