#include "aspen/ops/squareplus/squareplus.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/widened.h"

#define ASPEN_ISA_FILE "aspen/ops/squareplus/squareplus_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

bool declines(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  if (x.dtype == DType::kF32) return false;
  why = fmt::format("{}: the vector loops take f32, not {}", request.op, to_string(x));
  return true;
}

std::unique_ptr<Kernel> make_squareplus(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  auto width = static_cast<float>(request.attrs.as<SquareplusAttrs>().width);
  Chunks chunks = cut_elements(request.inputs[0].type.numel(), kMathCost);
  return make_kernel([width, chunks](const KernelArgs& args) {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    auto* y = static_cast<float*>(args.outputs[0]);
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      ASPEN_BEST(squareplus_loop)(x + chunk.begin, y + chunk.begin, chunk.size(), width);
    });
  });
}

std::unique_ptr<Kernel> make_squareplus_grad(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  auto width = static_cast<float>(request.attrs.as<SquareplusAttrs>().width);
  Chunks chunks = cut_elements(request.inputs[0].type.numel(), kMathCost);
  return make_kernel([width, chunks](const KernelArgs& args) {
    const auto *x = static_cast<const float*>(args.inputs[0]), *g = static_cast<const float*>(args.inputs[1]);
    auto* dx = static_cast<float*>(args.outputs[0]);
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      ASPEN_BEST(squareplus_grad_loop)
      (x + chunk.begin, g + chunk.begin, dx + chunk.begin, chunk.size(), width);
    });
  });
}

}  // namespace

void register_squareplus_cpu(KernelRegistry& kernels) {
  add_with_half(kernels, "squareplus", make_squareplus);
  add_with_half(kernels, "squareplus_grad", make_squareplus_grad);
}

}  // namespace aspen
