// Lets the host have tensors of the graph besides its outputs (CompileOptions::anchors), and lists the names of all
// that it could have (PassContext::tensor_names).
//
//   %0 = exp(%x) scope "a"     =>     %0 = exp(%x) scope "a"
//   return y: %1                      return y: %1, anchor___e: %0     for {.name = "e", .tensor = "a/exp:0"}
//
// Names: inputs begin with "input"; variables have their own; the loss of a training graph is "loss" (select_loss);
// what an op was given no name for is "<scope>/<op>:<id>". Ids are those of the capture, so that a graph captured twice
// has the same names, whatever is anchored. For gradients see anchor_gradients.h.
//
// What an update makes is no output of a step. "UpdatedVar___<parameter>", optimiser state and the like are read from
// the variable after each update instead; see anchored_variable.
//
// Expects: nothing. Ensures: an output for each anchored tensor that a step makes; nothing changes without anchors.
// After insert_optimizer, when all names are there, and before anything is dropped for lack of use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// UserError for names that the graph does not have.
void anchor_tensors(Graph& graph, const PassContext& context);

// The variable whose contents after each weight update are what the name stands for, of those that anchor_tensors has
// found; nullptr: it is none of these.
const Variable* anchored_variable(const Graph& graph, const std::string& tensor);

// For both passes: the error for a name that is not among `names`, and the list of those that are.
[[noreturn]] void refuse_anchor(const Anchor& anchor, const std::vector<std::string>& names, std::string_view rule);
void add_tensor_names(const std::vector<std::string>& names, const PassContext& context);

}  // namespace aspen
