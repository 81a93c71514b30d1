// What the conformance tests let pass, each with its reason.
#pragma once

#include <string_view>

namespace aspen::testing {

// Ops that may have no example.
struct NoExample {
  std::string_view op, reason;
};
inline constexpr NoExample kNoExamples[] = {
    {"assign", "has no output: what it does shows only in a program with variables"},
    {"call", "its kernel is made by the compiler, of those of the ops in its graph: tests/compiler/control_test.cpp"},
    {"check_factored", "has no output: it shows only when it raises an error"},
    {"cond", "as call"},
    {"custom_gradient", "its gradient is a function of the front end, which an example cannot name"},
    {"gradient_hook", "has no output: what it does shows only in a graph that is differentiated"},
    {"group", "as call: tests/compiler/group_test.cpp"},
    {"host_call", "runs a function of the front end, which an example cannot name"},
    {"loop", "as call"},
    {"replica_add", "has no output: what it does shows only in a program with variables"},
};

// Floating inputs and outputs a gradient rule leaves out on purpose.
struct NoGradient {
  std::string_view op, port, reason;
};
inline constexpr NoGradient kNoGradients[] = {
    {"attention", "mask", "fuse_attention leaves masks that are trained as they are"},
    {"attention", "top", "kept for the gradient kernel, and read by nothing else"},
    {"attention", "sum", "the same"},
    {"cross_entropy", "weight", "class weights are constants of the loss, as in PyTorch"},
    {"cross_entropy", "total_weight", "a normaliser for the gradient kernel, made of constants"},
    {"cross_entropy", "top", "kept for the gradient kernel, and read by nothing else"},
    {"cross_entropy", "sum", "the same"},
    {"graft", "value", "its gradient goes another way: this is what the op is for"},
    {"igamma", "a", "PyTorch has none either, and the front end refuses to train by it"},
    {"igammac", "a", "the same"},
    {"lstm_gates", "gates", "kept for the gradient kernel, and read by nothing else"},
    {"nll", "weight", "as in cross_entropy"},
    {"nll", "total_weight", "the same"},
    {"zeta", "a", "as igamma"},
};

// Ops that do not take all their operands in bfloat16: settings, sums, statistics and the bias of conv_float among them
// are float32 whatever the type of the weights, and round_at_random rounds nothing else.
inline constexpr std::string_view kNotInBFloat16[] = {"adam",
                                                      "attention_grad",
                                                      "batch_norm_grad",
                                                      "clip_scale",
                                                      "conv_float",
                                                      "cross_entropy_grad",
                                                      "dot_adam",
                                                      "dot_sgd",
                                                      "lamb",
                                                      "lamb_norms",
                                                      "lamb_step",
                                                      "loss_scale_update",
                                                      "nll_grad",
                                                      "normalize_grad",
                                                      "replica_sum",
                                                      "rmsprop",
                                                      "round_at_random",
                                                      "rows_adam",
                                                      "rows_sgd",
                                                      "sgd"};

inline bool refuses_bfloat16(std::string_view op) {
  for (std::string_view name : kNotInBFloat16) {
    if (name == op) return true;
  }
  return false;
}

inline bool has_no_gradient(std::string_view op, std::string_view port) {
  for (const NoGradient& entry : kNoGradients) {
    if (entry.op == op && entry.port == port) return true;
  }
  return false;
}

}  // namespace aspen::testing
