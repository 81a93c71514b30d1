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

  void visit(AttrVisitor& v) {
    v("function", function);
    v("gradient", gradient);
    v("differentiable", differentiable);
    v("outputs", outputs);
  }
};

}  // namespace aspen
