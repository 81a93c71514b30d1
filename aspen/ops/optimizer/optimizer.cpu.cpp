// Updates of float32 parameters in one pass over memory. rmsprop, lamb and half states run on the reference.
#include "aspen/ops/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/ops/optimizer/settings.h"

namespace aspen {
namespace {

struct SgdNumbers {
  float minus_lr = 0, decay = 0;
  float taken = 1, carried = 0;            // velocity = taken * gradient + carried * velocity
  float of_velocity = 1, of_gradient = 0;  // what the weight moves along
};

struct AdamNumbers {
  float kept = 1, decay = 0;  // of the weight, and of the weight into the gradient
  float beta1 = 0, taken1 = 0, beta2 = 0, taken2 = 0;
  float minus_step = 0, root_correction = 1, epsilon = 0;
};

constexpr std::int64_t kSquareSumBlock = 4096;  // elements summed in float; the sums of blocks meet in double

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/optimizer/optimizer_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

// Reading a setting as it was written takes longer than updating a small parameter, and settings seldom change: each
// thread remembers what it last read.
double setting(const float* values, Setting which) {
  struct Known {
    float value = 0;
    double written = 0;
  };
  thread_local Known known[kNumSettings];
  Known& k = known[which];
  if (k.value != values[which]) k = {values[which], as_written(values[which])};
  return k.written;
}

bool all_f32(const KernelRequest& request, std::string& why) {
  for (const auto& input : request.inputs) {
    if (input.present && input.type.dtype != DType::kF32) {
      why = fmt::format("{}: the vector loop takes f32, not {}", request.op, to_string(input.type));
      return false;
    }
  }
  return true;
}

const float* floats(const KernelArgs& args, std::size_t input) { return static_cast<const float*>(args.inputs[input]); }
float* result(const KernelArgs& args, std::size_t output) { return static_cast<float*>(args.outputs[output]); }

std::unique_ptr<Kernel> make_sgd(const KernelRequest& request, std::string& why) {
  if (!all_f32(request, why)) return nullptr;
  SgdAttrs attrs = request.attrs.as<SgdAttrs>();
  std::int64_t n = request.outputs[0].numel();
  Chunks chunks = cut_elements(n, kMoveCost);
  return make_kernel([attrs, n, chunks](const KernelArgs& args) {
    const float* settings = floats(args, 2);
    SgdNumbers numbers{.minus_lr = static_cast<float>(-setting(settings, kLearningRate)),
                       .decay = static_cast<float>(setting(settings, kWeightDecay))};
    const float* velocity = attrs.momentum ? floats(args, 4) : nullptr;
    float* new_velocity = attrs.momentum ? result(args, 1) : nullptr;
    auto momentum = static_cast<float>(setting(settings, kMomentum));
    if (attrs.momentum && momentum == 0) {  // the velocity rests
      if (new_velocity != velocity) std::memmove(new_velocity, velocity, static_cast<std::size_t>(n) * sizeof(float));
      velocity = nullptr;
    } else if (attrs.momentum) {
      bool first = *floats(args, 3) == 0;  // the first update sets velocity = gradient
      numbers.taken = first ? 1.0f : static_cast<float>(1 - setting(settings, kDampening));
      numbers.carried = first ? 0.0f : momentum;
      numbers.of_velocity = attrs.nesterov ? momentum : 1.0f;
      numbers.of_gradient = attrs.nesterov ? 1.0f : 0.0f;
    }
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      std::int64_t at = chunk.begin;
      ASPEN_BEST(sgd)
      (numbers, floats(args, 0) + at, floats(args, 1) + at, velocity == nullptr ? nullptr : velocity + at,
       result(args, 0) + at, velocity == nullptr ? nullptr : new_velocity + at, chunk.size());
    });
  });
}

std::unique_ptr<Kernel> make_adam(const KernelRequest& request, std::string& why) {
  if (!all_f32(request, why)) return nullptr;
  AdamAttrs attrs = request.attrs.as<AdamAttrs>();
  Chunks chunks = cut_elements(request.outputs[0].numel(), kMathCost);
  return make_kernel([attrs, chunks](const KernelArgs& args) {
    const float* settings = floats(args, 2);
    double lr = setting(settings, kLearningRate), decay = setting(settings, kWeightDecay);
    double beta1 = setting(settings, kMomentum), beta2 = setting(settings, kDampening);
    double steps = static_cast<double>(*floats(args, 3)) + 1;
    double correction1 = attrs.bias_correction ? 1 - std::pow(beta1, steps) : 1;
    double correction2 = attrs.bias_correction ? 1 - std::pow(beta2, steps) : 1;
    AdamNumbers numbers{.kept = attrs.decoupled ? static_cast<float>(1 - lr * decay) : 1.0f,
                        .decay = attrs.decoupled ? 0.0f : static_cast<float>(decay),
                        .beta1 = static_cast<float>(beta1),
                        .taken1 = static_cast<float>(1 - beta1),
                        .beta2 = static_cast<float>(beta2),
                        .taken2 = static_cast<float>(1 - beta2),
                        .minus_step = static_cast<float>(-(lr / correction1)),
                        .root_correction = static_cast<float>(std::sqrt(correction2)),
                        .epsilon = static_cast<float>(setting(settings, kEpsilon))};
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      std::int64_t at = chunk.begin;
      ASPEN_BEST(adam)
      (numbers, floats(args, 0) + at, floats(args, 1) + at, floats(args, 4) + at, floats(args, 5) + at,
       result(args, 0) + at, result(args, 1) + at, result(args, 2) + at, chunk.size());
    });
  });
}

std::unique_ptr<Kernel> make_square_sum(const KernelRequest& request, std::string& why) {
  if (!all_f32(request, why)) return nullptr;
  std::int64_t n = request.inputs[0].type.numel();
  std::int64_t blocks = (n + kSquareSumBlock - 1) / kSquareSumBlock;
  Chunks chunks = cut(blocks, kMoveCost * static_cast<double>(n));
  return make_kernel(
      [n, blocks, chunks](const KernelArgs& args) {
        auto* sums = static_cast<float*>(args.workspace);
        for_each_chunk(args, chunks, [&](const Chunk& chunk) {
          for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
            std::int64_t at = b * kSquareSumBlock;
            sums[b] = ASPEN_BEST(square_sum_block)(floats(args, 0) + at, std::min(kSquareSumBlock, n - at));
          }
        });
        double total = 0;
        for (std::int64_t b = 0; b < blocks; ++b) total += static_cast<double>(sums[b]);
        *result(args, 0) = static_cast<float>(total);
      },
      static_cast<std::size_t>(blocks) * sizeof(float));
}

}  // namespace

void register_optimizer_cpu(KernelRegistry& kernels) {
  kernels.add("sgd", make_sgd);
  kernels.add("adam", make_adam);
  kernels.add("square_sum", make_square_sum);
}

}  // namespace aspen
