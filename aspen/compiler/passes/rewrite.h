// Small edits several passes share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Lets `to` stand for `from` everywhere; a name moves along where it would be lost. Types must be equal.
void replace_value(Graph& graph, Value* from, Value* to);

// replace_value for the only output of an op, which is then erased.
void replace_op(Graph& graph, Op* op, Value* to);

// A parameter and its gradient, found by the names the passes give them.
struct ParameterGradient {
  Variable* parameter;
  Value* gradient;
};
inline constexpr std::string_view kGradientPrefix = "Gradient___";        // of one micro-batch
inline constexpr std::string_view kReducedPrefix = "ReducedGradient___";  // over the micro-batches of an update
std::vector<ParameterGradient> find_gradients(const Graph& graph, std::string_view prefix);

Value* find_value(const Graph& graph, std::string_view name);  // among the results of ops; nullptr: none

// The seed of the backward pass: what the loss is multiplied with.
inline constexpr const char* kSeedName = "loss_seed";

}  // namespace aspen
