// Targets are dealt out to the threads in chunks.
#include "aspen/ops/nll/nll.h"

#include <algorithm>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/ops/nll/partial_losses.cpu.h"

namespace aspen {
namespace {

constexpr double kTargetCost = 4;  // nanoseconds; mostly a wait for memory

struct NllPlan : TargetPlan {
  Chunks chunks;

  NllPlan(const KernelRequest& request, const Shape& x)
      : TargetPlan(request.op, request.attrs.as<NllAttrs>(), x), chunks(cut_elements(layout.targets(), kTargetCost)) {}

  std::size_t workspace_bytes() const { return static_cast<std::size_t>(chunks.count()) * sizeof(PartialLoss); }

  // Calls f(position in target, position in x, class) for every target of the chunk that counts; returns the first that
  // is wrong.
  template <class F>
  std::int64_t for_each_target(const Chunk& chunk, const std::int32_t* target, F&& f) const {
    std::int64_t n = chunk.begin / layout.inner, i = chunk.begin % layout.inner;
    for (std::int64_t at = chunk.begin; at < chunk.end; ++at) {
      std::int64_t t = target[at];
      if (t != ignored) {
        if (is_wrong(t)) return at;
        f(at, (n * layout.classes + t) * layout.inner + i, t);
      }
      if (++i == layout.inner) ++n, i = 0;
    }
    return kNoTarget;
  }
};

bool declines(const KernelRequest& request, const TensorType& x, std::string& why) {
  if (x.dtype == DType::kF32 && x.numel() > 0) return false;
  why = fmt::format("{}: takes f32 with at least one element, not {}", request.op, to_string(x));
  return true;
}

void nll(const NllPlan& plan, const KernelArgs& args) {
  const auto *x = static_cast<const float*>(args.inputs[0]), *weight = static_cast<const float*>(args.inputs[2]);
  const auto* target = static_cast<const std::int32_t*>(args.inputs[1]);
  auto* loss = static_cast<float*>(args.outputs[0]);
  auto* parts = static_cast<PartialLoss*>(args.workspace);
  for_each_chunk(args, plan.chunks, [&](const Chunk& chunk) {
    double sum = 0, total = 0;
    if (plan.none) std::fill(loss + chunk.begin, loss + chunk.end, 0.0f);
    std::int64_t wrong = plan.for_each_target(chunk, target, [&](auto at, auto place, auto t) {
      double w = weight != nullptr ? static_cast<double>(weight[t]) : 1.0;
      double value = -w * static_cast<double>(x[place]);
      total += w;
      sum += value;
      if (plan.none) loss[at] = static_cast<float>(value);
    });
    parts[chunk.index] = {sum, total, wrong};
  });
  plan.check(parts, plan.chunks.count(), target);
  plan.finish(parts, plan.chunks.count(), loss, static_cast<float*>(args.outputs[1]));
}

void nll_grad(const NllPlan& plan, const Chunks& zeros, const KernelArgs& args) {
  const auto* target = static_cast<const std::int32_t*>(args.inputs[0]);
  const auto *weight = static_cast<const float*>(args.inputs[1]), *g = static_cast<const float*>(args.inputs[3]);
  auto* dx = static_cast<float*>(args.outputs[0]);
  auto* parts = static_cast<PartialLoss*>(args.workspace);
  float total = *static_cast<const float*>(args.inputs[2]);
  float scale = plan.mean && total != 0 ? 1 / total : 1.0f;
  for_each_chunk(args, zeros, [&](const Chunk& chunk) { std::fill(dx + chunk.begin, dx + chunk.end, 0.0f); });
  for_each_chunk(args, plan.chunks, [&](const Chunk& chunk) {
    std::int64_t wrong = plan.for_each_target(chunk, target, [&](auto at, auto place, auto t) {
      float w = weight != nullptr ? weight[t] : 1.0f;
      dx[place] = -w * g[plan.none ? at : 0] * scale;
    });
    parts[chunk.index] = {0, 0, wrong};
  });
  plan.check(parts, plan.chunks.count(), target);
}

std::unique_ptr<Kernel> make_nll(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  if (declines(request, x, why)) return nullptr;
  NllPlan plan(request, x.shape);
  return make_kernel([plan](const KernelArgs& args) { nll(plan, args); }, plan.workspace_bytes());
}

std::unique_ptr<Kernel> make_nll_grad(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.outputs[0];
  if (declines(request, x, why)) return nullptr;
  NllPlan plan(request, x.shape);
  return make_kernel(
      [plan, zeros = cut_elements(x.numel(), kReadCost)](const KernelArgs& args) { nll_grad(plan, zeros, args); },
      plan.workspace_bytes());
}

}  // namespace

void register_nll_cpu(KernelRegistry& kernels) {
  kernels.add("nll", make_nll);
  kernels.add("nll_grad", make_nll_grad);
  register_cross_entropy_cpu(kernels);
}

}  // namespace aspen
