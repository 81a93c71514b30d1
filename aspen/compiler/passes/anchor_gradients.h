// Lets the host have gradients that it asks for (CompileOptions::anchors), each as an output of the graph.
//
//   %Gradient___w = ...     =>     %Gradient___w = ...
//   gradient %w: %Gradient___w     gradient %w: %Gradient___w
//   return y: %0                   return y: %0, anchor___g: %Gradient___w     for {.name = "g", .tensor =
//   "Gradient___w"}
//
// They are those of one micro-batch, before they are added up. "Gradient___<variable>" is their name whatever the value
// is called: one value may be the gradient of several variables. insert_optimizer takes loss scaling out of them.
//
// Expects: the gradients of variables are set. Ensures: an output for each gradient that is anchored; nothing changes
// without anchors.
// After differentiate and before accumulate_gradients, which replaces the gradients by those of an update.
#pragma once

#include <string>

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// UserError for gradients that the graph does not have.
void anchor_gradients(Graph& graph, const PassContext& context);

// Whether the name is that of a gradient.
bool is_gradient_name(const std::string& tensor);

}  // namespace aspen
