// Uniform numbers and dropout of float32, and rounding at random, bit for bit those of the reference; the rest runs
// there.
#include "aspen/ops/random/random.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/ops/random/philox.h"
#include "aspen/ops/random/random_rounding.h"

#define ASPEN_ISA_FILE "aspen/ops/random/random_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

bool declines(const KernelRequest& request, std::string& why) {
  if (request.outputs[0].dtype == DType::kF32) return false;
  why = fmt::format("{}: the vector loop gives f32, not {}", request.op, to_string(request.outputs[0]));
  return true;
}

using SourceLoop = void (*)(const RandomStream& stream, float* y, std::int64_t begin, std::int64_t end);

std::unique_ptr<Kernel> make_source(SourceLoop loop, const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  std::int64_t stream = request.attrs.as<RandomAttrs>().stream;
  Chunks chunks = cut_elements(request.outputs[0].numel(), kMathCost);
  return make_kernel([loop, stream, chunks](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      loop(RandomStream(*args.step, stream), static_cast<float*>(args.outputs[0]), chunk.begin, chunk.end);
    });
  });
}

std::unique_ptr<Kernel> make_uniform(const KernelRequest& request, std::string& why) {
  return make_source(ASPEN_BEST(uniform_loop), request, why);
}

std::unique_ptr<Kernel> make_normal(const KernelRequest& request, std::string& why) {
  return make_source(ASPEN_BEST(normal_loop), request, why);
}

std::unique_ptr<Kernel> make_dropout(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  DropoutAttrs attrs = request.attrs.as<DropoutAttrs>();
  Chunks chunks = cut_elements(request.outputs[0].numel(), kMathCost);
  float scale = attrs.p < 1 ? static_cast<float>(1 / (1 - attrs.p)) : 0.0f;
  return make_kernel([attrs, chunks, scale](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      ASPEN_BEST(dropout_loop)
      (RandomStream(*args.step, attrs.stream), static_cast<float>(attrs.p), scale,
       static_cast<const float*>(args.inputs[0]), static_cast<float*>(args.outputs[0]), chunk.begin, chunk.end);
    });
  });
}

std::unique_ptr<Kernel> make_round_at_random(const KernelRequest& request, std::string&) {
  const std::int64_t n = request.outputs[0].numel();
  return make_kernel(
      [n, attrs = request.attrs.as<RoundAtRandomAttrs>(), chunks = cut_elements(n, kMathCost)](const KernelArgs& args) {
        const auto [stream, first] = rounding_draws(*args.step, attrs, n);
        for_each_chunk(args, chunks, [&, &stream = stream, first = first](const Chunk& chunk) {
          ASPEN_BEST(round_at_random_loop)
          (stream, first, static_cast<const float*>(args.inputs[0]), static_cast<std::uint16_t*>(args.outputs[0]),
           chunk.begin, chunk.end);
        });
      });
}

}  // namespace

void register_random_cpu(KernelRegistry& kernels) {
  kernels.add("random_uniform", make_uniform);
  add_with_half(kernels, "random_normal", make_normal);
  add_with_half(kernels, "dropout", make_dropout);
  kernels.add("round_at_random", make_round_at_random);
}

}  // namespace aspen
