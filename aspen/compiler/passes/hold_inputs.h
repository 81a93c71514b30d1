// Synthetic data: makes variables of the inputs that the graph uses, so that nothing has to be transferred.
//
//   graph @main(%x)          graph @main(%x)
//   %0 = exp(%x)      =>     variable %synthetic___x buffer
//                            %0 = exp(%synthetic___x)
//
// Does nothing unless CompileOptions::holds_inputs. Whoever loads the program fills the variables, once.
// Expects: nothing. Ensures: no input is used.
// After the gradients are there, which may use inputs too, and before anything looks for where inputs are used.
#pragma once

#include <string>

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void hold_inputs(Graph& graph, const PassContext& context);

// The variable that an input becomes.
std::string held_input_name(const std::string& input);

}  // namespace aspen
