#include "poptorch/capture/host_call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "poptorch/capture/boxed_op.h"
#include "poptorch/capture/dispatch.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/host_work.h"

namespace poptorch {
namespace {

bool is_foreign(const c10::OperatorHandle& op) { return !op.operator_name().name.starts_with("aten::"); }

std::vector<at::Tensor> made_up_numbers(const BoxedOp& op) {
  std::vector<at::Tensor> numbers;
  const at::Generator own = at::detail::createCPUGenerator();  // the user's is not ours to move
  for (const at::Tensor& input : op.inputs()) {
    const bool floating = c10::isFloatingType(input.scalar_type());
    numbers.push_back((floating ? at::rand(input.sizes(), own) : at::zeros(input.sizes())).to(input.scalar_type()));
  }
  return numbers;
}

// Torch computes little in half precision on the CPU.
bool needs_float(const BoxedOp& op) {
  const auto is_half = [](const at::Tensor& input) { return input.scalar_type() == at::kHalf; };
  if (std::none_of(op.inputs().begin(), op.inputs().end(), is_half)) return false;
  try {
    op.call(made_up_numbers(op), c10::Device(c10::DeviceType::CPU));
    return false;
  } catch (const std::exception&) {
    take_foreign_error();
    return true;
  }
}

// Results of the right shapes and types: from torch's shape functions, or by computing with made-up numbers. The one
// kernel another library has for all devices may read memory, which the tensors of shape functions lack.
BoxedOp::Results example_results(const BoxedOp& op) {
  if (is_foreign(op.op()) && !op.op().hasKernelForDispatchKey(c10::DispatchKey::Meta)) {
    return op.call(made_up_numbers(op), c10::Device(c10::DeviceType::CPU));
  }
  std::vector<at::Tensor> metas;
  for (const at::Tensor& input : op.inputs()) {
    const auto options = at::TensorOptions().dtype(input.scalar_type());
    metas.push_back(at::empty(input.sizes(), options.device(c10::DeviceType::Meta)));
  }
  try {
    return op.call(metas, c10::Device(c10::DeviceType::Meta));
  } catch (const std::exception&) {
    take_foreign_error();
  }
  return op.call(made_up_numbers(op), c10::Device(c10::DeviceType::CPU));
}

void refuse_random(const Recorder& recorder, const c10::OperatorHandle& op) {
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) return;
  throw aspen::UserError(
      "[{}] draws random numbers, and there is no form of it that draws them on the device. On the host it would "
      "follow "
      "torch's generator instead of randomSeed, the same in all replicas, and draw again in the backward pass. Make "
      "the "
      "numbers from those of torch.rand or torch.randn, or pass them to forward as an input.{}",
      full_name(op), recorder.where());
}

}  // namespace

torch::jit::Stack emit_host_call(Recorder& recorder, const c10::OperatorHandle& op,
                                 const torch::jit::Stack& arguments) {
  refuse_random(recorder, op);
  BoxedOp boxed(op, arguments, [&](const at::Tensor& tensor) { return recorder.is_traced(tensor); });
  // A check returns nothing: it runs for the sake of its complaints, which made-up numbers must not provoke.
  const bool is_check = op.schema().returns().empty() && boxed.written().empty();
  const auto example =
      is_check ? BoxedOp::Results{} : naming(full_name(op), recorder.where(), [&] { return example_results(boxed); });
  const bool widen = needs_float(boxed);
  if (widen) boxed.widen_constants();
  HostWork work{.name = full_name(op), .is_foreign = is_foreign(op)};
  std::vector<aspen::Value*> values;
  for (const at::Tensor& input : boxed.inputs()) {
    values.push_back(recorder.value_of(input));
    const bool as_float = widen && input.scalar_type() == at::kHalf;
    work.inputs.push_back({values.back()->type(), as_float ? at::kFloat : input.scalar_type()});
  }
  std::vector<std::size_t> results;  // of the op's flat results, those that are outputs
  for (std::size_t i = 0; i < example.flat.size(); ++i) {
    if (!example.flat[i].defined()) continue;
    results.push_back(i);
    work.outputs.push_back({graph_type(example.flat[i]), example.flat[i].scalar_type()});
  }
  work.run = [boxed, results](const std::vector<at::Tensor>& inputs) {
    const auto all = boxed.call(inputs, c10::Device(c10::DeviceType::CPU)).flat;
    std::vector<at::Tensor> outputs;
    for (const std::size_t i : results) outputs.push_back(all[i]);
    return outputs;
  };
  recorder.note_host_call(op.operator_name().name);
  const std::vector<Wire> outputs = work.outputs;
  const auto wrapped = wrap_outputs(recorder, emit_host_work(recorder, values, std::move(work)), outputs);

  std::vector<at::Tensor> flat(example.flat.size());
  for (std::size_t i = 0; i < results.size(); ++i) flat[results[i]] = wrapped[i];
  const std::size_t first_written = flat.size() - boxed.written().size();
  for (std::size_t i = 0; i < boxed.written().size(); ++i) {
    recorder.write(boxed.written()[i], recorder.value_of(flat[first_written + i]));
  }
  return boxed.repack(example, flat);
}

}  // namespace poptorch
