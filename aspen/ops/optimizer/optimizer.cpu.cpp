// Updates of parameters in one pass over memory, half and bfloat16 as blocks of float on the stack: whole parameters in
// float would take more memory than the update is worth. rmsprop and lamb run on the reference.
#include "aspen/ops/optimizer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/elementwise.h"
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
  float minus_step = 0, epsilon = 0;  // both times the correction of the root, by which the root is not divided
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

constexpr std::size_t kMostInputs = 6;  // of adam
constexpr std::int64_t kBlock = 512;    // elements of one tensor converted at a time

// The types of the inputs; an output has the type of the input it replaces.
class Types {
 public:
  explicit Types(const KernelRequest& request) {
    for (std::size_t i = 0; i < request.inputs.size(); ++i) {
      types_.at(i) = request.inputs[i].type.dtype;
      any_narrow_ |= is_narrow_float(types_[i]);
    }
  }
  DType operator[](std::size_t input) const { return types_[input]; }

  // Calls work(at, n) for the pieces of a chunk: all of it, or blocks.
  template <class F>
  void for_each_piece(const Chunk& chunk, F&& work) const {
    std::int64_t size = any_narrow_ ? kBlock : chunk.size();
    for (std::int64_t at = chunk.begin; at < chunk.end; at += size) work(at, std::min(size, chunk.end - at));
  }

 private:
  std::array<DType, kMostInputs> types_{};
  bool any_narrow_ = false;
};

// A tensor before and after the update as the loops see it: floats where they are, or a block of it in float.
template <std::int64_t kSize = kBlock>
class FloatView {
 public:
  FloatView(const void* before, void* after, DType type) : before_(before), after_(after), type_(type) {}

  const float* read(std::int64_t at, std::int64_t n) {
    if (before_ == nullptr) return nullptr;
    if (type_ == DType::kF32) return static_cast<const float*>(before_) + at;
    if (type_ == DType::kF16) {
      to_float(static_cast<const Half*>(before_) + at, block_, n);
    } else {
      to_float(static_cast<const BFloat16*>(before_) + at, block_, n);
    }
    return block_;
  }
  float* target(std::int64_t at) {
    if (after_ == nullptr) return nullptr;
    return type_ == DType::kF32 ? static_cast<float*>(after_) + at : block_;  // the loops may write where they read
  }
  void store(std::int64_t at, std::int64_t n) const {
    if (after_ == nullptr || type_ == DType::kF32) return;
    if (type_ == DType::kF16) {
      from_float(block_, static_cast<Half*>(after_) + at, n);
    } else {
      from_float(block_, static_cast<BFloat16*>(after_) + at, n);
    }
  }

 private:
  const void* before_;
  void* after_;
  DType type_;
  float block_[kSize];
};

bool declines(const KernelRequest& request, std::string& why) {
  for (const auto& input : request.inputs) {
    if (input.type.dtype != DType::kF32 && !is_narrow_float(input.type.dtype)) {
      why = fmt::format("{}: the vector loop takes f32, f16 and bf16, not {}", request.op, to_string(input.type));
      return true;
    }
  }
  return false;
}

const float* floats(const KernelArgs& args, std::size_t input) { return static_cast<const float*>(args.inputs[input]); }

std::unique_ptr<Kernel> make_sgd(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  SgdAttrs attrs = request.attrs.as<SgdAttrs>();
  ChunkedRows<1> rows(broadcast_rows<1>(request.inputs[0].type.shape, {&request.inputs[1].type.shape}), kMoveCost);
  std::size_t velocity_bytes = attrs.momentum ? request.outputs[1].bytes() : 0;
  return make_kernel([attrs, rows, velocity_bytes, types = Types(request)](const KernelArgs& args) {
    const float* settings = floats(args, 2);
    SgdNumbers numbers{.minus_lr = static_cast<float>(-setting(settings, kLearningRate)),
                       .decay = static_cast<float>(setting(settings, kWeightDecay))};
    const void* velocity = attrs.momentum ? args.inputs[4] : nullptr;
    void* new_velocity = attrs.momentum ? args.outputs[1] : nullptr;
    auto momentum = static_cast<float>(setting(settings, kMomentum));
    if (attrs.momentum && momentum == 0) {  // the velocity rests
      if (new_velocity != velocity) std::memmove(new_velocity, velocity, velocity_bytes);
      velocity = new_velocity = nullptr;
    } else if (attrs.momentum) {
      bool first = *floats(args, 3) == 0;  // the first update sets velocity = gradient
      numbers.taken = first ? 1.0f : static_cast<float>(1 - setting(settings, kDampening));
      numbers.carried = first ? 0.0f : momentum;
      numbers.of_velocity = attrs.nesterov ? momentum : 1.0f;
      numbers.of_gradient = attrs.nesterov ? 1.0f : 0.0f;
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
                        .minus_step = static_cast<float>(-(lr / correction1) * std::sqrt(correction2)),
                        .epsilon = static_cast<float>(setting(settings, kEpsilon) * std::sqrt(correction2))};
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

void register_optimizer_cpu(KernelRegistry& kernels) {
  kernels.add("sgd", make_sgd);
  kernels.add("adam", make_adam);
  kernels.add("square_sum", make_square_sum);
}

}  // namespace aspen
