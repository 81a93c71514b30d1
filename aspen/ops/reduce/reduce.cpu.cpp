// Sums and extremes of float32 and half; other types and reductions run on the reference.
#include "aspen/ops/reduce/reduce.h"

#include <algorithm>
#include <string_view>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/reduction.h"
#include "aspen/backends/cpu/widened.h"

namespace aspen {
namespace {

constexpr std::int64_t kBlock = 8192;  // elements of a row joined before they meet the total

struct ReduceLoops {
  void (*part)(const ReductionPlan& plan, const ReductionPart& part, const float* x, float* y);
  // A single output takes several threads by blocks, which are joined in the order a single thread joins them.
  float (*block)(const float* x, std::int64_t n);
  float (*joined)(const float* blocks, std::int64_t count);
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/reduce/reduce_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

// All of a tensor: one contiguous row.
std::unique_ptr<Kernel> make_whole_reduction(std::int64_t n, const ReduceLoops& loops) {
  std::int64_t blocks = (n + kBlock - 1) / kBlock;
  Chunks chunks = cut(blocks, kReadCost * static_cast<double>(n));
  return make_kernel(
      [n, blocks, chunks, loops](const KernelArgs& args) {
        auto* x = static_cast<const float*>(args.inputs[0]);
        auto* results = static_cast<float*>(args.workspace);
        for_each_chunk(args, chunks, [&](const Chunk& chunk) {
          for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
            results[b] = loops.block(x + b * kBlock, std::min(kBlock, n - b * kBlock));
          }
        });
        *static_cast<float*>(args.outputs[0]) = loops.joined(results, blocks);
      },
      static_cast<std::size_t>(blocks) * sizeof(float));
}

std::unique_ptr<Kernel> make_reduction(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  if (x.dtype != DType::kF32 || x.numel() == 0) {
    why = fmt::format("{}: the vector loops take f32 with at least one element, not {}", request.op, to_string(x));
    return nullptr;
  }
  ReductionPlan plan(x.shape, request.attrs.as<ReduceAttrs>().axes);
  ReduceLoops loops = ASPEN_BEST(find_reduction)(request.op);
  if (plan.outputs() == 1) return make_whole_reduction(x.numel(), loops);
  ReductionParts parts(plan, kReadCost, 128);
  return make_kernel([plan, parts, loops](const KernelArgs& args) {
    parts.for_each(args, [&](const ReductionPart& part) {
      loops.part(plan, part, static_cast<const float*>(args.inputs[0]), static_cast<float*>(args.outputs[0]));
    });
  });
}

}  // namespace

void register_reduce_cpu(KernelRegistry& kernels) {
  for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"}) add_with_half(kernels, op, make_reduction);
}

}  // namespace aspen
