// The rules on batches, outputs, buffers and devices that follow from the options. Both APIs ask here.
#pragma once

#include <ATen/core/Tensor.h>

#include <set>
#include <string>
#include <vector>

#include "poptorch/api/option_store.h"
#include "poptorch/model/ipus.h"
#include "poptorch/model/session.h"
#include "poptorch/strategy.h"

namespace poptorch {

struct MicroBatches {
  std::int64_t count = 1;
  std::string rule;  // "4 device iterations x 2 gradient accumulation steps"
};
// How many of them each input of a call holds, and why.
MicroBatches micro_batches(const OptionStore& options, bool training);

// The first one of an input: what a model is captured with. An ArgumentError if the input does not divide.
at::Tensor first_micro_batch(const std::string& name, const at::Tensor& input, const MicroBatches& batches);

// Final for training and All for inference take the place of Default.
void resolve_output_mode(OptionStore& options, bool training);
// What one call runs and returns; an Error if the period of outputs does not divide the device iterations.
Session::Call call_of(const OptionStore& options, bool training);

// An ArgumentError unless options.anchorTensor has the name.
void check_is_anchored(const OptionStore& options, const std::string& name);

// Inference accumulates no gradients: an Error if the options ask for it.
void check_inference(const OptionStore& options, const ExecutionStrategy& strategy);

// `written`: the buffers that forward changes, but for the statistics of normalisations, of which each replica has its
// own. Replicas with inputs of their own would change shared ones differently: an Error.
void check_written_buffers(const OptionStore& options, const std::vector<std::string>& written,
                           const std::set<std::string>& statistics);

// An Error if updatableNamedBuffers lists what is no buffer of the model.
void check_updatable_buffers(const OptionStore& options, const std::vector<std::string>& buffers);

// Groups of replicas are to have values of their own of this parameter: an Error if the model is compiled already, or
// if the parameter has no axis for the groups.
void check_may_group(const std::string& name, const at::Tensor& parameter, bool is_compiled);

// ConnectionType: OnDemand attaches at the first call; a model with Never can only be compiled, else an ArgumentError.
bool attaches_when_compiled(const OptionStore& options);
void check_may_attach(const OptionStore& options);

// `used`: the devices of the blocks of the model.
IpuRequest ipu_request(const OptionStore& options, const std::set<std::int64_t>& used);
// The device that an executor takes for itself while it is attached; none if the options leave the choice open.
std::optional<std::int64_t> device_to_take(const OptionStore& options);

}  // namespace poptorch
