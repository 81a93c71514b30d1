// The gradient is made in the workspace by the kernel of its op, then updates the weight by that of the optimiser.
#include <algorithm>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/dot/dot.ref.h"
#include "aspen/ops/index/check_index.h"
#include "aspen/ops/optimizer/optimizer.ref.h"

namespace aspen {
namespace {

std::size_t gradient_bytes(const KernelRequest& request) { return (request.outputs[0].bytes() + 63) / 64 * 64; }

KernelRequest product_of(const KernelRequest& request) {
  return {.op = "dot",
          .attrs = Attrs::of(DotAttrs{.transpose_a = true}),
          .inputs = {request.inputs[1], request.inputs[2]},
          .outputs = {request.outputs[0]}};
}

void make_product(const KernelCall& call, float* gradient) {
  const KernelRequest request = product_of(call.request());
  const void* inputs[] = {call.in<float>(1), call.in<float>(2)};
  void* outputs[] = {gradient};
  multiply_matrices({request,
                     {.inputs = inputs,
                      .outputs = outputs,
                      .workspace = call.workspace<std::byte>() + gradient_bytes(call.request())}});
}

void add_rows(const KernelCall& call, float* gradient) {
  const Shape &table = call.in_type(0).shape, &places = call.in_type(1).shape;
  const auto* index = call.in<std::int32_t>(1);
  const auto* row = call.in<float>(2);
  const std::int64_t size = numel(table), columns = size / std::max<std::int64_t>(table[0], 1);
  std::fill_n(gradient, size, 0.0f);
  for (std::int64_t i = 0; i < numel(places); ++i, row += columns) {
    float* sum = gradient + checked_index(index[i], table[0], "scatter_rows", i, places) * columns;
    for (std::int64_t k = 0; k < columns; ++k) sum[k] += row[k];
  }
}

// w, settings, step and states are the ports of the update, but that it reads one gradient in place of two operands.
template <void (*kMakeGradient)(const KernelCall&, float*), void (*kUpdate)(const KernelCall&)>
void update(const KernelCall& call) {
  auto* gradient = call.workspace<float>();
  kMakeGradient(call, gradient);
  KernelRequest request{
      .attrs = call.request().attrs, .inputs = call.request().inputs, .outputs = call.request().outputs};
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (std::size_t i = 0; i < call.num_inputs(); ++i) inputs.push_back(call.in<void>(i));
  for (std::size_t i = 0; i < call.num_outputs(); ++i) outputs.push_back(call.out<void>(i));
  request.inputs.erase(request.inputs.begin() + 1);
  inputs.erase(inputs.begin() + 1);
  request.inputs[1].type = request.outputs[0];
  inputs[1] = gradient;
  kUpdate({request, {.inputs = inputs, .outputs = outputs}});
}

std::size_t dot_update_workspace(const KernelRequest& request) {
  return gradient_bytes(request) + multiply_matrices_workspace(product_of(request));
}

}  // namespace

void register_weight_update_ref(KernelRegistry& kernels) {
  kernels.add("dot_sgd", update<make_product, update_by_sgd>, dot_update_workspace);
  kernels.add("dot_adam", update<make_product, update_by_adam>, dot_update_workspace);
  kernels.add("rows_sgd", update<add_rows, update_by_sgd>, gradient_bytes);
  kernels.add("rows_adam", update<add_rows, update_by_adam>, gradient_bytes);
}

}  // namespace aspen
