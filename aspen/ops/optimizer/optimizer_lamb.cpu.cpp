// LAMB in two passes: the length of the whole update must be known before any of it is applied. Squares are summed in
// double, as in the reference, so that it hardly matters in which order.
#include <algorithm>
#include <cmath>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/base/replica_grouping.h"
#include "aspen/ops/optimizer/optimizer.h"
#include "aspen/ops/optimizer/optimizer_views.cpu.h"

namespace aspen {
namespace {

struct LambNumbers {
  float beta1 = 0, taken1 = 0, beta2 = 0, taken2 = 0;
  float decay = 0, epsilon = 0, correction1 = 1, root_correction = 1;
  float least = 0;  // what is divided by and stored in half must not become 0
};

struct LambSquares {
  double weights = 0, updates = 0;
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/optimizer/lamb_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

LambNumbers numbers_of(const KernelArgs& args, bool bias_correction, const Types& types) {
  const float* settings = floats(args, 2);
  const double beta1 = setting(settings, kMomentum), beta2 = setting(settings, kDampening);
  const double steps = static_cast<double>(*floats(args, 3)) + 1;
  LambNumbers numbers{.beta1 = static_cast<float>(beta1),
                      .taken1 = static_cast<float>(1 - beta1),
                      .beta2 = static_cast<float>(beta2),
                      .taken2 = static_cast<float>(1 - beta2),
                      .decay = static_cast<float>(setting(settings, kWeightDecay)),
                      .epsilon = static_cast<float>(setting(settings, kEpsilon)),
                      .least = types[5] == DType::kF16 ? 0x1p-24f : 0.0f};
  if (bias_correction) {
    numbers.correction1 = static_cast<float>(1 - std::pow(beta1, steps));
    numbers.root_correction = static_cast<float>(std::sqrt(1 - std::pow(beta2, steps)));
  }
  return numbers;
}

// Pieces of kBlock, whatever the types: the second loop over one finds it in the first-level cache.
template <class F>
void for_each_block(const Chunk& chunk, F&& work) {
  for (std::int64_t at = chunk.begin; at < chunk.end; at += kBlock) work(at, std::min(kBlock, chunk.end - at));
}

constexpr std::size_t kPartsBytes = kMostChunks * sizeof(LambSquares);  // of the workspace of sum_of_squares

// In parts that meet in their order.
LambSquares sum_of_squares(const KernelArgs& args, const Types& types, const Chunks& chunks,
                           const LambNumbers& numbers) {
  auto* parts = static_cast<LambSquares*>(args.workspace);
  for_each_chunk(args, chunks, [&](const Chunk& chunk) {
    FloatView<> w(args.inputs[0], nullptr, types[0]), g(args.inputs[1], nullptr, types[1]);
    FloatView<> first(args.inputs[4], nullptr, types[4]), second(args.inputs[5], nullptr, types[5]);
    LambSquares sums;
    for_each_block(chunk, [&](std::int64_t at, std::int64_t n) {
      const LambSquares block =
          ASPEN_BEST(lamb_squares)(numbers, w.read(at, n), g.read(at, n), first.read(at, n), second.read(at, n), n);
      sums.weights += block.weights;
      sums.updates += block.updates;
    });
    parts[chunk.index] = sums;
  });
  LambSquares total;
  for (std::int64_t i = 0; i < chunks.count(); ++i) {
    total.weights += parts[i].weights;
    total.updates += parts[i].updates;
  }
  return total;
}

// -lr * min(|w|, max weight norm) / |update|.
float minus_step(const float* settings, const LambSquares& squares) {
  const double weight_norm = std::min(std::sqrt(squares.weights), setting(settings, kMaxWeightNorm));
  const double update_norm = std::sqrt(squares.updates);
  const double ratio = weight_norm > 0 && update_norm > 0 ? weight_norm / update_norm : 1;
  return static_cast<float>(-setting(settings, kLearningRate) * ratio);
}

// The update is that of the means as they are stored.
void apply(const KernelArgs& args, const Types& types, const Chunks& chunks, const LambNumbers& numbers, float step) {
  for_each_chunk(args, chunks, [&](const Chunk& chunk) {
    FloatView<> w(args.inputs[0], args.outputs[0], types[0]), g(args.inputs[1], nullptr, types[1]);
    FloatView<> first(args.inputs[4], args.outputs[1], types[4]), second(args.inputs[5], args.outputs[2], types[5]);
    FloatView<> new_first(args.outputs[1], nullptr, types[4]), new_second(args.outputs[2], nullptr, types[5]);
    for_each_block(chunk, [&](std::int64_t at, std::int64_t n) {
      ASPEN_BEST(lamb_means)
      (numbers, g.read(at, n), first.read(at, n), second.read(at, n), first.target(at), second.target(at), n);
      first.store(at, n);
      second.store(at, n);
      ASPEN_BEST(lamb_move)
      (numbers, w.read(at, n), new_first.read(at, n), new_second.read(at, n), step, w.target(at), n);
      w.store(at, n);
    });
  });
}

std::unique_ptr<Kernel> make_lamb(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  return make_kernel(
      [types = Types(request), chunks = cut_elements(request.outputs[0].numel(), kMathCost),
       correction = request.attrs.as<LambAttrs>().bias_correction](const KernelArgs& args) {
        const LambNumbers numbers = numbers_of(args, correction, types);
        const LambSquares squares = sum_of_squares(args, types, chunks, numbers);
        apply(args, types, chunks, numbers, minus_step(floats(args, 2), squares));
      },
      kPartsBytes);
}

std::unique_ptr<Kernel> make_lamb_norms(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  return make_kernel(
      [types = Types(request), attrs = request.attrs.as<LambNormsAttrs>()](const KernelArgs& args) {
        const auto [begin, end] = shard_of(attrs.numel, static_cast<std::size_t>(args.step->replica),
                                           static_cast<std::size_t>(attrs.replicas));
        const Chunks chunks = cut_elements(end - begin, kMathCost);  // the last shards are shorter
        const LambSquares sums = sum_of_squares(args, types, chunks, numbers_of(args, attrs.bias_correction, types));
        auto* norms = static_cast<double*>(args.outputs[0]);
        norms[0] = sums.weights;
        norms[1] = sums.updates;
      },
      kPartsBytes);
}

std::unique_ptr<Kernel> make_lamb_step(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  const Types types(request);
  return make_kernel([types, chunks = cut_elements(request.outputs[0].numel(), kMathCost),
                      correction = request.attrs.as<LambAttrs>().bias_correction](const KernelArgs& args) {
    const auto* norms = static_cast<const double*>(args.inputs[6]);
    apply(args, types, chunks, numbers_of(args, correction, types), minus_step(floats(args, 2), {norms[0], norms[1]}));
  });
}

}  // namespace

void register_lamb_cpu(KernelRegistry& kernels) {
  kernels.add("lamb", make_lamb);
  kernels.add("lamb_norms", make_lamb_norms);
  kernels.add("lamb_step", make_lamb_step);
}

}  // namespace aspen
