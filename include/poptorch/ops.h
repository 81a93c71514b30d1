// Functions to call in a forward. Outside a captured model they have their ordinary meaning in torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "poptorch/structure.h"

namespace poptorch {

// Marks a value that is no standard loss as the one to train on. A plain reduction outside a captured model.
enum class LossReduction { Sum, Mean, None };
at::Tensor identityLoss(const at::Tensor& x, LossReduction reduction);
at::Tensor identityLoss(const at::Tensor& x, const std::string& reduction);  // "sum", "mean" or "none"

// The tensor itself, through an op that is never optimised away.
at::Tensor nop(const at::Tensor& tensor);

// The tensor itself; each time it is computed it is printed to stderr, and so is its gradient.
enum class FloatFormat { Auto, Fixed, Scientific, None };
struct PrintOptions {
  bool print_gradient = true;
  std::int64_t summarise_threshold = 1000;
  std::int64_t edge_items = 3;
  std::int64_t max_line_width = 80;
  std::int64_t digits = 4;
  FloatFormat float_format = FloatFormat::Auto;
  std::string separator = ", ";
  std::string open_bracket = "(";
  std::string close_bracket = ")";
};
at::Tensor ipuPrintTensor(const at::Tensor& tensor, const std::string& title = "", const PrintOptions& options = {});

// Marks tensors to be kept for the backward pass rather than computed again.
at::Tensor recomputationCheckpoint(const at::Tensor& tensor);
std::vector<at::Tensor> recomputationCheckpoint(const std::vector<at::Tensor>& tensors);

// How much memory the op that made the tensor may use for itself: a hint that changes no result.
at::Tensor setAvailableMemory(const at::Tensor& tensor, double available_memory_proportion);

// matmul in `factor` parts, so that less memory is needed at a time. Sums of half parts are kept in float if asked for.
enum class MatMulSerializationMode { InputChannels, ReducingDim, OutputChannels, Disabled };
at::Tensor serializedMatMul(const at::Tensor& lhs, const at::Tensor& rhs, MatMulSerializationMode mode,
                            std::int64_t factor = 0, bool keep_precision = false);

// tensor[start : start + size : step] along dim, with a start that is known only when the model runs: an integer
// tensor of one element. Beyond the end it goes on at the beginning.
at::Tensor dynamicSlice(const at::Tensor& tensor, std::int64_t dim, const at::Tensor& start, std::int64_t size,
                        std::int64_t step);
// A copy of input whose window [start, start + size) along dim is src.
at::Tensor dynamicUpdate(const at::Tensor& input, const at::Tensor& src, std::int64_t dim, const at::Tensor& start,
                         std::int64_t size);

// -- control flow ----------------------------------------------------------------------------------------------------
using Body = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
// Calls body `count` times, each time on the tensors the previous call returned. The body is recorded once and becomes
// a loop of the program; what it makes and does not return cannot be used outside. Bodies that write to tensors
// outside, call functions with a backward pass of their own, put hooks on gradients or begin blocks are recorded once a
// turn.
std::vector<at::Tensor> forLoop(std::int64_t count, const Body& body, const std::vector<at::Tensor>& inputs);
// What then_body returns if the condition, a bool tensor of one element, holds, else what else_body does. The other one
// does not run: it writes to no buffer, prints nothing and cannot fail. Where a body calls functions with a backward
// pass of their own, puts hooks on gradients or begins blocks, both are computed and the results chosen between.
std::vector<at::Tensor> cond(const at::Tensor& condition, const Body& then_body,
                             const std::vector<at::Tensor>& then_inputs, const Body& else_body,
                             const std::vector<at::Tensor>& else_inputs);

// -- overlapped transfers -----------------------------------------------------------------------------------------
enum class OverlapMode { NoOverlap, OverlapAccumulationLoop, OverlapDeviceIterationLoop };
// The tensor itself, transferred while the device computes. First thing in forward.
at::Tensor setOverlapForInput(const at::Tensor& tensor, OverlapMode mode);
// The same for a result. Last thing in forward.
at::Tensor setOverlapForOutput(const at::Tensor& tensor, OverlapMode mode);
// The same for all tensors of a tuple, a vector, a map, ... (structure.h).
template <class T>
T setOverlapForInput(T tensors, OverlapMode mode) {
  const auto mark = [&](at::Tensor& tensor, const std::string&) { tensor = setOverlapForInput(tensor, mode); };
  detail::visit(tensors, "", mark, [](const std::string&, const std::string&) {});
  return tensors;
}
template <class T>
T setOverlapForOutput(T tensors, OverlapMode mode) {
  const auto mark = [&](at::Tensor& tensor, const std::string&) { tensor = setOverlapForOutput(tensor, mode); };
  detail::visit(tensors, "", mark, [](const std::string&, const std::string&) {});
  return tensors;
}

// -- work on the host ---------------------------------------------------------------------------------------------
// A layer that runs on the host in the middle of a model, with the values of each micro-batch. When the model is
// captured it is called once, with zeros, to learn what it returns; then by the threads of the program, with tensors of
// its own. Where a gradient is wanted through it, the backward pass calls it once more and differentiates it by torch's
// autograd. What it uses besides its arguments stays on the host and is not trained.
class CPU {
 public:
  using Layer = Body;
  // No other layer of a model may have the same id.
  CPU(Layer layer, std::string id);
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& inputs) const;

 private:
  std::shared_ptr<const Layer> layer_;
  std::string id_;
};

// -- decoding and points; no gradient flows through these -----------------------------------------------------------
// The likeliest label sequences by prefix beam search: their log-probabilities [N, top_paths], lengths [N, top_paths]
// and labels [N, top_paths, T], both int32, zero beyond the length. probs: log-probabilities [T, N, C]; lengths [N].
// Outside a captured model: zeros.
std::tuple<at::Tensor, at::Tensor, at::Tensor> ctcBeamSearchDecoder(const at::Tensor& probs, const at::Tensor& lengths,
                                                                    std::int64_t blank = 0,
                                                                    std::int64_t beam_width = 100,
                                                                    std::int64_t top_paths = 1);
// Farthest point sampling of the rows of src in each segment ptr[i]:ptr[i + 1]: the indices (int32) of ceil(length *
// ratio) rows that lie far from each other, beginning with the first or a random one.
at::Tensor fps(const at::Tensor& src, const std::vector<std::int64_t>& ptr, double ratio = 0.5,
               bool random_start = false);
// For each row of x the index (int32) of the nearest row of y, within the same batch if the rows have batch ids. Ids
// are sorted.
at::Tensor nearest(const at::Tensor& x, const at::Tensor& y, const std::optional<at::Tensor>& batch_x = std::nullopt,
                   const std::optional<at::Tensor>& batch_y = std::nullopt);

}  // namespace poptorch
