#include "poptorch/capture/host_layer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/host_work.h"

namespace poptorch {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

// What the layer is given is its own: it may change or keep it.
Tensors run_on_copies(const HostLayer& layer, const Tensors& inputs) {
  const AutogradScope torch_as_ever;
  Tensors copies;
  bool for_gradient = false;
  for (const at::Tensor& input : inputs) {
    copies.push_back(input.clone());
    for_gradient = for_gradient || input.requires_grad();
  }
  if (!for_gradient) return layer.run(copies);
  // The backward pass runs the layer again, and must see it do what it did before.
  const at::Tensor before = random_state();
  Tensors results = layer.run(copies);
  if (at::equal(before, random_state())) return results;
  throw aspen::UserError(
      "the layer draws random numbers from torch's generator and a gradient is wanted through it: the backward pass "
      "runs the layer again, which would draw others. Draw them in the model, and give them to the layer as an input.");
}

Tensors run_on_zeros(const HostLayer& layer, const Tensors& inputs) {
  const Recorder::Paused paused;
  const AutogradScope torch_as_ever;
  Tensors zeros;
  for (const at::Tensor& input : inputs) zeros.push_back(at::zeros(input.sizes(), input.scalar_type()));
  return layer.run(zeros);
}

void require_results(const Tensors& results) {
  if (!results.empty() && std::all_of(results.begin(), results.end(), [](const auto& t) { return t.defined(); }))
    return;
  throw aspen::UserError("the layer must return one tensor or several; it returned {}.",
                         results.empty() ? "none" : "one that is undefined");
}

}  // namespace

Tensors record_host_layer(Recorder& recorder, const HostLayer& layer, const Tensors& inputs) {
  HostWork work{.name = "CPU " + layer.id, .is_foreign = true};
  return recorder.record(work.name, inputs, [&] {
    if (!recorder.claim_id(layer.id, layer.identity)) {
      throw aspen::UserError(
          "[{}] another layer of the model has the ID \"{}\" already. Give each its own; to use one layer several "
          "times, call the same CPU object.",
          work.name, layer.id);
    }
    const std::string where = recorder.where();  // before the layer runs
    naming(work.name, where, [&] {
      const Tensors example = run_on_zeros(layer, inputs);
      require_results(example);
      work.inputs = wires_of(inputs);
      work.outputs = wires_of(example);
    });
    work.run = [layer](const Tensors& given) { return run_on_copies(layer, given); };
    return emit_host_work(recorder, inputs, std::move(work));
  });
}

}  // namespace poptorch
