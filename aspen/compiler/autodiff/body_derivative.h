// The derivative of one body, cut in two: what it has to return beside its results, and the graph that computes
// gradients from that. Used by body_gradients.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "aspen/compiler/autodiff/differentiator.h"

namespace aspen {

struct BodyDerivative {
  using Flow = GradientContext::Flow;

  // What an input of `backward` is.
  struct Operand {
    enum class Kind : std::uint8_t {
      kSaved,     // result `index` of those added to the body
      kInput,     // input `index` of the body
      kArriving,  // the gradient of result `index` of the body
    };
    Kind kind = Kind::kSaved;
    std::size_t index = 0;
  };

  std::unique_ptr<Graph> forward;  // the body with results added to it
  std::size_t num_saved = 0;       // how many
  std::unique_ptr<Graph> backward;
  std::vector<Operand> operands;  // by input of backward
  std::vector<Flow> flows;        // by input of the body
  std::vector<Value*> gradients;  // in backward, by input of the body, where the flow is kGradient
};

// wanted: inputs by which to differentiate. arriving: results whose gradients arrive. passing: inputs that are gone
// when the backward pass begins, and have to be returned if it needs them.
BodyDerivative differentiate_body(const Graph& body, const std::vector<bool>& wanted, const std::vector<bool>& arriving,
                                  const std::vector<bool>& passing);

}  // namespace aspen
