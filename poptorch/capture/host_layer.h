// Layers of the user's that run on the host in the middle of a model: poptorch::CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "poptorch/capture/recorder.h"

namespace poptorch {

struct HostLayer {
  std::string id;
  std::shared_ptr<const void> identity;  // the same for all calls of one layer
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> run;
};

// Runs the layer once on zeros, to learn what it returns, and adds a call of it to the graph.
std::vector<at::Tensor> record_host_layer(Recorder& recorder, const HostLayer& layer,
                                          const std::vector<at::Tensor>& inputs);

}  // namespace poptorch
