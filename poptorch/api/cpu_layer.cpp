#include "poptorch/api/guarded.h"
#include "poptorch/capture/host_layer.h"
#include "poptorch/ops.h"

namespace poptorch {

CPU::CPU(Layer layer, std::string id) : layer_(std::make_shared<const Layer>(std::move(layer))), id_(std::move(id)) {}

std::vector<at::Tensor> CPU::operator()(const std::vector<at::Tensor>& inputs) const {
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr) return (*layer_)(inputs);
  const HostLayer layer{id_, layer_, [own = layer_](const std::vector<at::Tensor>& given) { return (*own)(given); }};
  return guarded([&] { return record_host_layer(*recorder, layer, inputs); });
}

}  // namespace poptorch
