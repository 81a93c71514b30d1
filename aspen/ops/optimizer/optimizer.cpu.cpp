// Updates of parameters in one pass over memory, half and bfloat16 as blocks of float on the stack: whole parameters in
// float would take more memory than the update is worth. LAMB, which takes two, is in optimizer_lamb.cpu.cpp.
#include "aspen/ops/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/ops/optimizer/optimizer_pieces.cpu.h"
#include "aspen/ops/optimizer/optimizer_views.cpu.h"

namespace aspen {
namespace {

struct RmspropNumbers {
  float lr = 0, decay = 0, momentum = 0;
  float alpha = 0, taken = 0;  // of the mean before, and of what comes in
  float epsilon = 0;
};

// Tensors before and after the update; nullptr: there is none.
struct RmspropTensors {
  const float *w, *g, *square, *mean, *velocity;
  float *new_w, *new_square, *new_mean, *new_velocity;
};

constexpr std::int64_t kSquareSumBlock = 4096;  // elements summed in float; the sums of blocks meet in double

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/optimizer/optimizer_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_sgd(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  SgdAttrs attrs = request.attrs.as<SgdAttrs>();
  ChunkedRows<1> rows(broadcast_rows<1>(request.inputs[0].type.shape, {&request.inputs[1].type.shape}), kMoveCost);
  std::size_t velocity_bytes = attrs.momentum ? request.outputs[1].bytes() : 0;
  return make_kernel([attrs, rows, velocity_bytes, types = Types(request)](const KernelArgs& args) {
    const SgdNumbers numbers = numbers_of(attrs, floats(args, 2), *floats(args, 3));
    const void* velocity = attrs.momentum ? args.inputs[4] : nullptr;
    void* new_velocity = attrs.momentum ? args.outputs[1] : nullptr;
    if (!numbers.has_velocity) {
      if (new_velocity != velocity) std::memmove(new_velocity, velocity, velocity_bytes);
      velocity = new_velocity = nullptr;
    }
    const std::int64_t step = rows.rows().strides()[0];  // of the gradient along a row: 1, or 0 if it is one number
    rows.for_each_piece(args, [&](std::int64_t first, const auto& offsets, std::int64_t count) {
      FloatView<> w(args.inputs[0], args.outputs[0], types[0]), g(args.inputs[1], nullptr, types[1]);
      FloatView<> v(velocity, new_velocity, types[4]);
      types.for_each_piece({0, first, first + count}, [&](std::int64_t at, std::int64_t n) {
        const float* gradient = g.read(offsets[0] + (at - first) * step, step == 0 ? 1 : n);
        ASPEN_BEST(sgd)(numbers, w.read(at, n), gradient, step == 0, v.read(at, n), w.target(at), v.target(at), n);
        w.store(at, n);
        v.store(at, n);
      });
    });
  });
}

std::unique_ptr<Kernel> make_adam(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  AdamAttrs attrs = request.attrs.as<AdamAttrs>();
  Chunks chunks = cut_elements(request.outputs[0].numel(), kMathCost);
  return make_kernel([attrs, chunks, types = Types(request)](const KernelArgs& args) {
    const AdamNumbers numbers = numbers_of(attrs, floats(args, 2), *floats(args, 3));
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      FloatView<> w(args.inputs[0], args.outputs[0], types[0]), g(args.inputs[1], nullptr, types[1]);
      FloatView<> first(args.inputs[4], args.outputs[1], types[4]), second(args.inputs[5], args.outputs[2], types[5]);
      types.for_each_piece(chunk, [&](std::int64_t at, std::int64_t n) {
        ASPEN_BEST(adam)
        (numbers, w.read(at, n), g.read(at, n), first.read(at, n), second.read(at, n), w.target(at), first.target(at),
         second.target(at), n);
        w.store(at, n);
        first.store(at, n);
        second.store(at, n);
      });
    });
  });
}

std::unique_ptr<Kernel> make_rmsprop(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  RmspropAttrs attrs = request.attrs.as<RmspropAttrs>();
  Chunks chunks = cut_elements(request.outputs[0].numel(), kMathCost);
  return make_kernel([attrs, chunks, types = Types(request)](const KernelArgs& args) {
    const float* settings = floats(args, 2);
    const double alpha = setting(settings, kDampening);
    const RmspropNumbers numbers{.lr = static_cast<float>(setting(settings, kLearningRate)),
                                 .decay = static_cast<float>(setting(settings, kWeightDecay)),
                                 .momentum = static_cast<float>(setting(settings, kMomentum)),
                                 .alpha = static_cast<float>(alpha),
                                 .taken = static_cast<float>(1 - alpha),
                                 .epsilon = static_cast<float>(setting(settings, kEpsilon))};
    const std::size_t velocity_at = attrs.centered ? 2 : 1;  // among the states
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      const auto state = [&](std::size_t i, bool exists) {
        return exists ? FloatView<>(args.inputs[4 + i], args.outputs[1 + i], types[4 + i])
                      : FloatView<>(nullptr, nullptr, DType::kF32);
      };
      FloatView<> w(args.inputs[0], args.outputs[0], types[0]), g(args.inputs[1], nullptr, types[1]);
      FloatView<> square = state(0, true), mean = state(1, attrs.centered),
                  velocity = state(velocity_at, attrs.momentum);
      types.for_each_piece(chunk, [&](std::int64_t at, std::int64_t n) {
        const RmspropTensors tensors{w.read(at, n),     g.read(at, n),        square.read(at, n),
                                     mean.read(at, n),  velocity.read(at, n), w.target(at),
                                     square.target(at), mean.target(at),      velocity.target(at)};
        ASPEN_BEST(rmsprop)(numbers, attrs.tf_variant, tensors, n);
        for (FloatView<>* view : {&w, &square, &mean, &velocity}) view->store(at, n);
      });
    });
  });
}

std::unique_ptr<Kernel> make_square_sum(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  std::int64_t n = request.inputs[0].type.numel();
  std::int64_t blocks = (n + kSquareSumBlock - 1) / kSquareSumBlock;
  Chunks chunks = cut(blocks, kMoveCost * static_cast<double>(n));
  return make_kernel(
      [n, blocks, chunks, type = request.inputs[0].type.dtype](const KernelArgs& args) {
        auto* sums = static_cast<float*>(args.workspace);
        for_each_chunk(args, chunks, [&](const Chunk& chunk) {
          FloatView<kSquareSumBlock> x(args.inputs[0], nullptr, type);
          for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
            std::int64_t at = b * kSquareSumBlock, count = std::min(kSquareSumBlock, n - at);
            sums[b] = ASPEN_BEST(square_sum_block)(x.read(at, count), count);
          }
        });
        double total = 0;
        for (std::int64_t b = 0; b < blocks; ++b) total += static_cast<double>(sums[b]);
        *static_cast<float*>(args.outputs[0]) = static_cast<float>(total);
      },
      static_cast<std::size_t>(blocks) * sizeof(float));
}

}  // namespace

SgdNumbers numbers_of(const SgdAttrs& attrs, const float* settings, float steps_before) {
  SgdNumbers numbers{.minus_lr = static_cast<float>(-setting(settings, kLearningRate)),
                     .decay = static_cast<float>(setting(settings, kWeightDecay))};
  const auto momentum = static_cast<float>(setting(settings, kMomentum));
  if (!attrs.momentum || momentum == 0) return numbers;
  const bool is_first = steps_before == 0;  // the first update sets velocity = gradient
  numbers.taken = is_first ? 1.0f : static_cast<float>(1 - setting(settings, kDampening));
  numbers.carried = is_first ? 0.0f : momentum;
  numbers.of_velocity = attrs.nesterov ? momentum : 1.0f;
  numbers.of_gradient = attrs.nesterov ? 1.0f : 0.0f;
  numbers.has_velocity = true;
  return numbers;
}

AdamNumbers numbers_of(const AdamAttrs& attrs, const float* settings, float steps_before) {
  double lr = setting(settings, kLearningRate), decay = setting(settings, kWeightDecay);
  double beta1 = setting(settings, kMomentum), beta2 = setting(settings, kDampening);
  double steps = static_cast<double>(steps_before) + 1;
  double correction1 = attrs.bias_correction ? 1 - std::pow(beta1, steps) : 1;
  double correction2 = attrs.bias_correction ? 1 - std::pow(beta2, steps) : 1;
  return {.kept = attrs.decoupled ? static_cast<float>(1 - lr * decay) : 1.0f,
          .decay = attrs.decoupled ? 0.0f : static_cast<float>(decay),
          .beta1 = static_cast<float>(beta1),
          .taken1 = static_cast<float>(1 - beta1),
          .beta2 = static_cast<float>(beta2),
          .taken2 = static_cast<float>(1 - beta2),
          .minus_step = static_cast<float>(-(lr / correction1) * std::sqrt(correction2)),
          .epsilon = static_cast<float>(setting(settings, kEpsilon) * std::sqrt(correction2))};
}

PiecewiseSgd::PiecewiseSgd(const SgdAttrs& attrs, const KernelArgs& args, const UpdatePorts& ports, std::int64_t numel)
    : numbers_(numbers_of(attrs, floats(args, ports.settings), *floats(args, ports.step))), w_(floats(args, ports.w)),
      new_w_(static_cast<float*>(args.outputs[0])) {
  if (!attrs.momentum) return;
  const float* velocity = floats(args, ports.state(0));
  auto* new_velocity = static_cast<float*>(args.outputs[1]);
  if (numbers_.has_velocity) {
    velocity_ = velocity;
    new_velocity_ = new_velocity;
  } else if (new_velocity != velocity) {
    std::memmove(new_velocity, velocity, static_cast<std::size_t>(numel) * sizeof(float));
  }
}

void PiecewiseSgd::operator()(const GradientPiece& piece) const {
  const std::int64_t at = piece.begin;
  const bool moves = velocity_ != nullptr;
  ASPEN_BEST(sgd)
  (numbers_, w_ + at, piece.gradient, false, moves ? velocity_ + at : nullptr, new_w_ + at,
   moves ? new_velocity_ + at : nullptr, piece.count);
}

PiecewiseAdam::PiecewiseAdam(const AdamAttrs& attrs, const KernelArgs& args, const UpdatePorts& ports, std::int64_t)
    : numbers_(numbers_of(attrs, floats(args, ports.settings), *floats(args, ports.step))), w_(floats(args, ports.w)),
      first_(floats(args, ports.state(0))), second_(floats(args, ports.state(1))),
      new_w_(static_cast<float*>(args.outputs[0])), new_first_(static_cast<float*>(args.outputs[1])),
      new_second_(static_cast<float*>(args.outputs[2])) {}

void PiecewiseAdam::operator()(const GradientPiece& piece) const {
  const std::int64_t at = piece.begin;
  ASPEN_BEST(adam)
  (numbers_, w_ + at, piece.gradient, first_ + at, second_ + at, new_w_ + at, new_first_ + at, new_second_ + at,
   piece.count);
}

void register_optimizer_cpu(KernelRegistry& kernels) {
  kernels.add("sgd", make_sgd);
  kernels.add("adam", make_adam);
  kernels.add("rmsprop", make_rmsprop);
  kernels.add("square_sum", make_square_sum);
  register_lamb_cpu(kernels);
}

}  // namespace aspen
