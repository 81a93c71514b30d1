// Small edits several passes share.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Lets `to` stand for `from` everywhere; a name moves along where it would be lost. Types must be equal.
void replace_value(Graph& graph, Value* from, Value* to);

// replace_value for the only output of an op, which is then erased.
void replace_op(Graph& graph, Op* op, Value* to);

// Whether one op can take over what the other does: they run at the same place, in the same part of a step.
bool run_together(const Op& a, const Op& b);

// Whether one op can stand for both wherever they are placed: they are in the same part of a step, and gradients flow
// through both or neither.
bool belong_together(const Op& a, const Op& b);

// The number that a value is everywhere, if that is known and written as one; nothing: it is not.
std::optional<double> number_of(const Value& value);

// Variables that have a gradient, in the order of the graph.
std::vector<Variable*> variables_with_gradients(const Graph& graph);

// The op whose place the sum of a variable's gradients, its update and the optimiser's state for it share: its first
// use in the forward pass that gradients flow through, or where there is none, the op that makes the gradient.
const Op& home_of(const Variable& variable);

Value* find_value(const Graph& graph, std::string_view name);  // among the results of ops; nullptr: none

// Whether the results of an op are numbers of its inputs, or 0, as they were: what has been rounded or counted before
// need not be again.
bool only_moves(const Op& op);

// Whether it is an optimiser's update of a parameter.
bool is_update(const Op& op);

// The seed of the backward pass: what the loss is multiplied with.
inline constexpr const char* kSeedName = "loss_seed";

}  // namespace aspen
