#include "aspen/compiler/control_kernels.h"

#include <algorithm>
#include <cstring>

#include "aspen/compiler/body_program.h"
#include "aspen/compiler/group_kernel.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/ops/control/control.h"

namespace aspen {
namespace {

// A seed for one turn of a loop, or one of several calls of a body: neighbours share no bits (SplitMix64).
std::uint64_t mixed(std::uint64_t seed, std::uint64_t number) {
  std::uint64_t z = seed + (number + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::byte* memory_of(const KernelArgs& args, std::size_t input) {
  return static_cast<std::byte*>(const_cast<void*>(args.inputs[input]));  // a body writes to results only
}

std::byte* result_of(const KernelArgs& args, std::size_t output) {
  return static_cast<std::byte*>(args.outputs[output]);
}

class LoopKernel final : public Kernel {
 public:
  LoopKernel(const KernelRequest& request, const Backend& backend)
      : loop_(request.attrs.as<LoopAttrs>()), carried_(static_cast<std::size_t>(loop_.carried)),
        sliced_(static_cast<std::size_t>(loop_.sliced)), num_inputs_(request.inputs.size()),
        body_(graph_of(loop_.body), carried_, request, backend) {
    for (const KernelInput& input : request.inputs) input_bytes_.push_back(input.type.bytes());
    const auto rows = static_cast<std::size_t>(std::max<std::int64_t>(loop_.count, 1));
    for (const TensorType& output : request.outputs) row_bytes_.push_back(output.bytes() / rows);
  }

  std::size_t workspace_bytes() const override { return body_.workspace_bytes(); }
  bool calls_host() const override { return body_.calls_host(); }
  void reserve(std::size_t num_threads) const override { body_.reserve(num_threads); }

  void run(const KernelArgs& args) const override {
    auto* workspace = static_cast<std::byte*>(args.workspace);
    body_.begin(workspace);
    for (std::size_t i = 0; i < carried_; ++i) {
      std::byte* memory = result_of(args, i);
      if (memory != args.inputs[i] && input_bytes_[i] != 0) std::memcpy(memory, args.inputs[i], input_bytes_[i]);
      body_.bind(workspace, i, memory);
    }
    for (std::size_t i = carried_ + sliced_; i < num_inputs_; ++i) body_.bind(workspace, i, memory_of(args, i));
    StepContext step = *args.step;
    for (std::int64_t i = 0; i < loop_.count; ++i) {
      const auto turn = static_cast<std::size_t>(loop_.reverse ? loop_.count - 1 - i : i);
      bind_rows(args, workspace, turn);
      step.seed = mixed(args.step->seed, turn);
      body_.run(workspace, step);
    }
  }

 private:
  void bind_rows(const KernelArgs& args, std::byte* workspace, std::size_t turn) const {
    const auto count = static_cast<std::size_t>(loop_.count);
    for (std::size_t i = carried_; i < carried_ + sliced_; ++i) {
      body_.bind(workspace, i, memory_of(args, i) + turn * (input_bytes_[i] / count));
    }
    for (std::size_t i = carried_; i < row_bytes_.size(); ++i) {
      body_.bind(workspace, num_inputs_ + i - carried_, result_of(args, i) + turn * row_bytes_[i]);
    }
  }

  LoopAttrs loop_;
  std::size_t carried_, sliced_, num_inputs_;
  BodyProgram body_;
  std::vector<std::size_t> input_bytes_, row_bytes_;
};

// One body over operands that begin with input `first`.
void run_once(const BodyProgram& body, const KernelArgs& args, std::size_t first, const StepContext& step) {
  auto* workspace = static_cast<std::byte*>(args.workspace);
  body.begin(workspace);
  const std::size_t operands = args.inputs.size() - first;
  for (std::size_t i = 0; i < operands; ++i) body.bind(workspace, i, memory_of(args, first + i));
  for (std::size_t i = 0; i < args.outputs.size(); ++i) body.bind(workspace, operands + i, result_of(args, i));
  body.run(workspace, step);
}

class CondKernel final : public Kernel {
 public:
  CondKernel(const KernelRequest& request, const Backend& backend)
      : yes_(graph_of(request.attrs.as<CondAttrs>().then_body), 0, request, backend),
        no_(graph_of(request.attrs.as<CondAttrs>().else_body), 0, request, backend) {}

  // One of them runs, and has it for itself.
  std::size_t workspace_bytes() const override { return std::max(yes_.workspace_bytes(), no_.workspace_bytes()); }
  bool calls_host() const override { return yes_.calls_host() || no_.calls_host(); }
  void reserve(std::size_t num_threads) const override {
    yes_.reserve(num_threads);
    no_.reserve(num_threads);
  }
  void run(const KernelArgs& args) const override {
    std::uint8_t condition = 0;
    std::memcpy(&condition, args.inputs[0], sizeof(condition));
    run_once(condition != 0 ? yes_ : no_, args, 1, *args.step);
  }

 private:
  BodyProgram yes_, no_;
};

class CallKernel final : public Kernel {
 public:
  CallKernel(const KernelRequest& request, const Backend& backend)
      : stream_(static_cast<std::uint64_t>(request.attrs.as<CallAttrs>().stream)),
        body_(graph_of(request.attrs.as<CallAttrs>().body), 0, request, backend) {}

  std::size_t workspace_bytes() const override { return body_.workspace_bytes(); }
  bool calls_host() const override { return body_.calls_host(); }
  void reserve(std::size_t num_threads) const override { body_.reserve(num_threads); }
  void run(const KernelArgs& args) const override {
    StepContext step = *args.step;
    step.seed = mixed(step.seed, stream_);
    run_once(body_, args, 0, step);
  }

 private:
  std::uint64_t stream_;
  BodyProgram body_;
};

}  // namespace

std::unique_ptr<Kernel> make_control_kernel(const KernelRequest& request, const Backend& backend) {
  if (request.op == "loop") return std::make_unique<LoopKernel>(request, backend);
  if (request.op == "cond") return std::make_unique<CondKernel>(request, backend);
  if (request.op == "call") return std::make_unique<CallKernel>(request, backend);
  if (request.op == "group") return make_group_kernel(request, backend);
  return nullptr;
}

}  // namespace aspen
