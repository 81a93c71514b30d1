// Model::run: host tensors in and out of one call of the executor.
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>

#include "aspen/base/log.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/narrow.h"
#include "poptorch/model/model.h"
#include "poptorch/model/summary.h"

namespace poptorch {
std::int64_t returned_batches(const OutputRequest& request, std::int64_t device_iterations,
                              std::int64_t gradient_accumulation) {
  switch (request.mode) {
    case aspen::OutputMode::kAll: return device_iterations * gradient_accumulation;
    case aspen::OutputMode::kEveryN:
      if (request.period < 1 || device_iterations % request.period != 0) {
        throw aspen::UserError("[run] the output period {} does not divide the {} device iterations.", request.period,
                               device_iterations);
      }
      return device_iterations / request.period * gradient_accumulation;
    case aspen::OutputMode::kFinal:
    case aspen::OutputMode::kSum: break;
  }
  return 1;
}

aspen::Shape stacked(aspen::Shape shape, std::int64_t count) {
  if (count == 1) return shape;
  if (shape.empty()) return {count};
  shape[0] *= count;
  return shape;
}

namespace {

// The program reads whole elements where they lie: memory of the user's own may begin anywhere.
at::Tensor aligned(const at::Tensor& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
  return address % tensor.element_size() == 0 ? tensor : tensor.clone();
}

}  // namespace

// A host tensor in the layout the program reads: the tensor itself where that is so already.
at::Tensor Model::host_input(std::size_t index, const at::Tensor& tensor, std::int64_t micro_batches) {
  const aspen::ProgramTensor& wanted = program_->inputs[index];
  const c10::ScalarType type = tensor.scalar_type();
  const bool is_wide = wanted.type.dtype == aspen::DType::kI64;  // the program brings it to 32 bits
  const bool has_type = is_wide ? type == c10::ScalarType::Long : graph_dtype(type) == wanted.type.dtype;
  if (!has_type || shape_of(tensor) != stacked(wanted.type.shape, micro_batches)) {
    throw aspen::InternalError("input \"{}\" is {} of shape {}, not {} micro-batches of {}", wanted.name,
                               c10::toString(type), aspen::to_string(shape_of(tensor)), micro_batches,
                               aspen::to_string(wanted.type));
  }
  if (!program_->has_transfers) return tensor;
  if (is_wide) return aligned(tensor.detach().contiguous());
  const at::Tensor given = aligned(to_graph_type(tensor, fmt::format("input \"{}\"", wanted.name)));
  if (type != c10::ScalarType::Double) return given;
  if (warned_.insert("float64 " + wanted.name).second) {
    aspen::log::warn("input \"{}\" is float64; the device computes with float32", wanted.name);
  }
  if (const auto lost = first_overflow(tensor, given); lost && warned_.insert("infinite " + wanted.name).second) {
    aspen::log::warn("input \"{}\" holds {}, which is infinite in the float32 of the device", wanted.name, *lost);
  }
  return given;
}

void Model::warn_of_frozen() {
  std::vector<std::string> frozen, unfrozen;
  for (const HostTensor& entry : tensors_) {
    if (!entry.is_parameter || entry.tensor.requires_grad() == entry.trainable) continue;
    if (warned_.insert("frozen " + entry.name).second) (entry.trainable ? frozen : unfrozen).push_back(entry.name);
  }
  const auto warn = [](const std::vector<std::string>& names, const char* what) {
    if (names.empty()) return;
    aspen::log::warn(
        "parameters were {} after the model was compiled, which the program does not follow: {}. Call destroy() to "
        "have it compiled anew",
        what, summary(names));
  };
  warn(frozen, "frozen (requires_grad=False)");
  warn(unfrozen, "unfrozen (requires_grad=True)");
}

aspen::RunRequest Model::request_for(const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& results,
                                     const std::vector<OutputRequest>& outputs, std::int64_t device_iterations,
                                     std::int64_t gradient_accumulation) {
  aspen::RunRequest request;
  std::size_t bytes = 0;
  request.device_iterations = device_iterations;
  request.gradient_accumulation = gradient_accumulation;
  for (const at::Tensor& input : inputs) request.inputs.push_back(input.data_ptr());
  std::vector<OutputRequest> wanted(program_->outputs.size());  // all of what is written to inputs
  std::copy_n(outputs.begin(), num_outputs_, wanted.begin());
  for (std::size_t i = 0; i < anchor_outputs_.size(); ++i) wanted[anchor_outputs_[i]] = outputs[num_outputs_ + i];
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const aspen::TensorType& type = program_->outputs[i].type;
    const auto batches = returned_batches(wanted[i], device_iterations, gradient_accumulation);
    const auto shape = stacked(type.shape, batches * static_cast<std::int64_t>(program_->replicas));
    const c10::ScalarType dtype = host_dtype(type.dtype);
    results.push_back(program_->has_transfers ? output_memory_.empty(shape, dtype) : at::zeros(shape, dtype));
    bytes += results.back().nbytes();
    request.outputs.push_back({results.back().data_ptr(), wanted[i].mode, wanted[i].period});
  }
  output_memory_.keep_at_most(2 * bytes);  // a caller often drops a result when it has the next one
  return request;
}

// Replicas of a group read the same input; what its first one made of it is what the caller sees.
at::Tensor Model::one_per_input_group(const at::Tensor& result, const aspen::Shape& micro_batch) const {
  const std::size_t replicas = program_->replicas, groups = program_->input_grouping.num_groups(replicas);
  if (groups == replicas) return result;
  std::vector<at::Tensor> kept;
  aspen::Shape blocks = micro_batch;
  blocks.insert(blocks.begin(), {-1, static_cast<std::int64_t>(replicas)});
  const at::Tensor split = result.view(blocks);
  for (std::size_t group = 0; group < groups; ++group) {
    kept.push_back(split.select(1, program_->input_grouping.members(group, replicas).front()));
  }
  return at::stack(kept, 1);
}

std::vector<at::Tensor> Model::run(const std::vector<at::Tensor>& inputs, std::int64_t device_iterations,
                                   std::int64_t gradient_accumulation, const std::vector<OutputRequest>& outputs,
                                   const std::function<bool()>& should_stop) {
  require_attached("run");
  if (inputs.size() != program_->inputs.size() || outputs.size() != num_outputs_ + anchors_.size()) {
    throw aspen::UserError("[run] was given {} inputs and {} output modes; the model has {} and {}.", inputs.size(),
                           outputs.size(), program_->inputs.size(), num_outputs_ + anchors_.size());
  }
  HostScope host;
  if (training_) warn_of_frozen();
  const auto groups = static_cast<std::int64_t>(program_->input_grouping.num_groups(program_->replicas));
  std::vector<at::Tensor> given, results;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    given.push_back(host_input(i, inputs[i], device_iterations * gradient_accumulation * groups));
  }
  aspen::RunRequest request = request_for(given, results, outputs, device_iterations, gradient_accumulation);
  request.should_stop = should_stop;
  has_written_ = !written_.empty();  // also if the run is interrupted
  executor_->run(request);
  if (program_->has_transfers) write_inputs(inputs, results);
  std::vector<at::Tensor> returned(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(num_outputs_));
  for (const std::size_t output : anchor_outputs_) returned.push_back(results[output]);
  return returned;
}

void Model::write_inputs(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& results) const {
  for (std::size_t i = 0; i < written_inputs_.size(); ++i) {
    const at::Tensor& target = inputs[written_inputs_[i]];
    const at::Tensor written =
        one_per_input_group(results[num_outputs_ + i], program_->outputs[num_outputs_ + i].type.shape);
    target.detach().copy_(written.reshape(target.sizes()));
  }
}

}  // namespace poptorch
