#include "poptorch/capture/host_call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "poptorch/capture/boxed_op.h"
#include "poptorch/capture/dispatch.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/host_work.h"
#include "poptorch/capture/stored_value.h"

namespace poptorch {
namespace {

bool is_foreign(const c10::OperatorHandle& op) { return !op.operator_name().name.starts_with("aten::"); }

// Numbers an op may be tried with: some take only positive definite matrices.
enum class MadeUp { kRandom, kIdentity };

std::vector<at::Tensor> made_up_numbers(const BoxedOp& op, MadeUp kind, bool widen) {
  std::vector<at::Tensor> numbers;
  const at::Generator own = at::detail::createCPUGenerator();  // the user's is not ours to move
  for (const at::Tensor& input : op.inputs()) {
    const bool floating = c10::isFloatingType(input.scalar_type());
    const auto type = widen && is_narrow_float(input.scalar_type()) ? at::kFloat : input.scalar_type();
    const bool square = input.dim() >= 2 && input.size(-1) == input.size(-2);
    if (floating && kind == MadeUp::kIdentity && square) {
      numbers.push_back(at::eye(input.size(-1)).expand(input.sizes()).to(type).contiguous());
    } else {
      numbers.push_back((floating ? at::rand(input.sizes(), own) : at::zeros(input.sizes())).to(type));
    }
  }
  return numbers;
}

// What torch makes of made-up numbers of a kind that it takes.
BoxedOp::Results try_out(const BoxedOp& op, bool widen) {
  try {
    return op.call(made_up_numbers(op, MadeUp::kRandom, widen), c10::Device(c10::DeviceType::CPU));
  } catch (const std::exception&) {
    take_foreign_error();
  }
  return op.call(made_up_numbers(op, MadeUp::kIdentity, widen), c10::Device(c10::DeviceType::CPU));
}

// Torch computes little in half precision on the CPU, and not everything in bfloat16.
bool needs_float(const BoxedOp& op) {
  const auto is_narrow = [](const at::Tensor& input) { return is_narrow_float(input.scalar_type()); };
  if (std::none_of(op.inputs().begin(), op.inputs().end(), is_narrow)) return false;
  try {
    try_out(op, false);
    return false;
  } catch (const std::exception&) {
    take_foreign_error();
    return true;
  }
}

// Results of the right shapes and types: from torch's shape functions, or by computing with made-up numbers. The one
// kernel another library has for all devices may read memory, which the tensors of shape functions lack.
BoxedOp::Results example_results(const BoxedOp& op, bool widen) {
  if (!is_foreign(op.op()) || op.op().hasKernelForDispatchKey(c10::DispatchKey::Meta)) {
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
  }
  BoxedOp::Results results = try_out(op, widen);
  if (!widen) return results;
  const auto narrow = std::find_if(op.inputs().begin(), op.inputs().end(),
                                   [](const at::Tensor& input) { return is_narrow_float(input.scalar_type()); });
  for (at::Tensor& result : results.flat) {
    if (result.defined() && result.scalar_type() == at::kFloat) result = result.to(narrow->scalar_type());
  }
  return results;
}

void refuse_sparse(const Recorder& recorder, const c10::OperatorHandle& op, const BoxedOp::Results& example) {
  for (const at::Tensor& result : example.flat) {
    if (!result.defined() || result.layout() == c10::kStrided) continue;
    throw aspen::UserError(
        "[{}] makes a tensor of layout {}, and tensors of a model are dense. Leave it dense, or convert what the model "
        "returns.{}",
        full_name(op), c10::str(result.layout()), recorder.where());
  }
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

// results: of the op's flat results, those that are outputs.
std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> caller_of(
    const BoxedOp& boxed, const std::vector<std::size_t>& results) {
  return [boxed, results](const std::vector<at::Tensor>& inputs) {
    const auto all = boxed.call(inputs, c10::Device(c10::DeviceType::CPU)).flat;
    std::vector<at::Tensor> outputs;
    for (const std::size_t i : results) outputs.push_back(all.at(i));
    return outputs;
  };
}

struct StoredHostCall {
  std::vector<std::byte> op;
  std::vector<std::uint64_t> results;
};

template <class Stream>
void visit(Stream& stream, StoredHostCall& call) {
  stream(call.op, call.results);
}

std::optional<std::vector<std::byte>> stored_call_of(const BoxedOp& boxed, const std::vector<std::size_t>& results) {
  std::optional<std::vector<std::byte>> op = boxed.stored();
  if (!op) return std::nullopt;
  StoredHostCall stored{std::move(*op), {results.begin(), results.end()}};
  return bytes_of(stored);
}

}  // namespace

std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> restored_host_call(
    std::span<const std::byte> stored) {
  const auto call = from_bytes<StoredHostCall>(stored);
  return caller_of(BoxedOp::restored(call.op), {call.results.begin(), call.results.end()});
}

torch::jit::Stack emit_host_call(Recorder& recorder, const c10::OperatorHandle& op,
                                 const torch::jit::Stack& arguments) {
  refuse_random(recorder, op);
  BoxedOp boxed(op, arguments, [&](const at::Tensor& tensor) { return recorder.is_traced(tensor); });
  // A check returns nothing: it runs for the sake of its complaints, which made-up numbers must not provoke.
  const bool is_check = op.schema().returns().empty() && boxed.written().empty();
  const bool widen = !is_check && needs_float(boxed);
  if (widen) boxed.widen_constants();
  const auto example = is_check
                           ? BoxedOp::Results{}
                           : naming(full_name(op), recorder.where(), [&] { return example_results(boxed, widen); });
  refuse_sparse(recorder, op, example);
  HostWork work{.name = full_name(op), .is_foreign = is_foreign(op)};
  work.inputs = wires_of(boxed.inputs());
  for (Wire& input : work.inputs) {
    if (widen && is_narrow_float(input.torch_type)) input.torch_type = at::kFloat;
  }
  std::vector<std::size_t> results;  // of the op's flat results, those that are outputs
  for (std::size_t i = 0; i < example.flat.size(); ++i) {
    if (!example.flat[i].defined()) continue;
    results.push_back(i);
    work.outputs.push_back({graph_type(example.flat[i]), example.flat[i].scalar_type()});
  }
  work.run = caller_of(boxed, results);
  work.stored = [boxed, results] { return stored_call_of(boxed, results); };
  recorder.note_host_call(op.operator_name().name);
  const auto outputs = emit_host_work(recorder, boxed.inputs(), std::move(work));

  std::vector<at::Tensor> flat(example.flat.size());
  for (std::size_t i = 0; i < results.size(); ++i) flat[results[i]] = outputs[i];
  const std::size_t first_written = flat.size() - boxed.written().size();
  for (std::size_t i = 0; i < boxed.written().size(); ++i) {
    recorder.write(boxed.written()[i], recorder.value_of(flat[first_written + i]));
  }
  return boxed.repack(example, flat);
}

}  // namespace poptorch
