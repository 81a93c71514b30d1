// Reductions of float32, half, bfloat16, int32 and bool; positions of extremes, scans and the gradient of products have
// files of their own.
#include "aspen/ops/reduce/reduce.h"

#include <algorithm>
#include <string_view>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/reduction.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/ops/reduce/argreduce.cpu.h"
#include "aspen/ops/reduce/prod_grad.cpu.h"
#include "aspen/ops/reduce/scan.cpu.h"

namespace aspen {
namespace {

constexpr std::int64_t kBlock = 8192;  // elements of a row joined before they meet the total

// Results of half and bfloat16 are float32.
struct ReduceLoops {
  void (*part)(const ReductionPlan& plan, const ReductionPart& part, const void* x, void* y);
  // A single output takes several threads by blocks, which are joined in the order a single thread joins them.
  void (*blocks)(const void* x, std::int64_t n, const Chunk& blocks, void* results);
  void (*join)(const void* results, std::int64_t count, void* y);
};

struct ReduceRow {
  std::string_view op;
  DType dtype;
  ReduceLoops loops;
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/reduce/reduce_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

// All of a tensor: one contiguous row.
std::unique_ptr<Kernel> make_whole_reduction(const TensorType& x, DType result, const ReduceLoops& loops) {
  std::int64_t n = x.numel(), blocks = (n + kBlock - 1) / kBlock;
  Chunks chunks = cut(blocks, kReadCost * static_cast<double>(n));
  return make_kernel(
      [n, blocks, chunks, loops](const KernelArgs& args) {
        for_each_chunk(args, chunks,
                       [&](const Chunk& chunk) { loops.blocks(args.inputs[0], n, chunk, args.workspace); });
        loops.join(args.workspace, blocks, args.outputs[0]);
      },
      static_cast<std::size_t>(blocks) * size_of(result));
}

std::unique_ptr<Kernel> make_reduction(const KernelRequest& request, std::string& why) {
  const TensorType &x = request.inputs[0].type, &y = request.outputs[0];
  const ReduceLoops* loops = ASPEN_BEST(find_reduction)(request.op, x.dtype);
  if (loops == nullptr || x.numel() == 0 || is_narrow_float(y.dtype)) {
    why = fmt::format("{}: no vector loop for {}", request.op, to_string(x));
    return nullptr;
  }
  ReductionPlan plan(x.shape, request.attrs.as<ReduceAttrs>().axes);
  if (plan.outputs() == 1) return make_whole_reduction(x, y.dtype, *loops);
  ReductionParts parts(plan, kReadCost, 128);
  return make_kernel([plan, parts, part_of = loops->part](const KernelArgs& args) {
    parts.for_each(args, [&](const ReductionPart& part) { part_of(plan, part, args.inputs[0], args.outputs[0]); });
  });
}

}  // namespace

void register_reduce_cpu(KernelRegistry& kernels) {
  for (const char* op : {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"}) {
    kernels.add(op, make_reduction);
    kernels.add(op, rounded(make_reduction));
  }
  add_with_half(kernels, "reduce_prod_grad", make_prod_grad);
  add_with_half(kernels, "argreduce", make_argreduce);
  for (const char* op : {"cumsum", "cumprod", "cumprod_grad"}) add_with_half(kernels, op, make_scan);
}

}  // namespace aspen
