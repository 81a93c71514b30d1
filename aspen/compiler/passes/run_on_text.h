// Runs passes on the text form of a graph: what aspen-opt does, and the pass tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// Returns the text of the resulting graph.
std::string run_passes_on_text(std::string_view text, const std::vector<std::string>& passes,
                               const CompileOptions& options, const Backend* backend);

// Reads options of a training graph like "gradient_accumulation=4 replicas=2 optimizer=sgd group=w,b momentum":
//   gradient_accumulation=N, device_iterations=N, num_stages=N, replicas=N, sum, running_mean, inference,
//   holds_inputs, anchor=NAME:TENSOR (may be repeated),
//   stochastic_rounding, automatic_loss_scaling,
//   execution=pipelined|sharded|phased, recompute=nothing|stages|norms|all|parts,
//   memory_budget=BYTES, automatic_budget, cut=DEVICES (stages of ops are the parts to be joined),
//   liveness=always_live|off_device_after_forward|off_device_after_forward_no_overlap|off_device_after_each_phase,
//   separate_backward_phase,
//   off_device=KIND,... and sharded=KIND,... of weights, optimizer_state, accumulators, activations,
//   min_elements=N and min_shard_elements=N for all kinds, min_group_elements=N,
//   optimizer=NAME, group=PARAMETER,... (may be repeated; momentum and nesterov belong to the group before them),
//   no_bias_correction, centered, tf_variant, scales_loss, max_grad_norm=X,
//   accumulators=f32|f16, first_order=f32|f16, second_order=f32|f16, keeps_parameter_types.
// A UserError lists the known words.
CompileOptions parse_compile_options(std::string_view text);

std::vector<std::string> split_words(std::string_view text, std::string_view separators);

}  // namespace aspen
