// How the CPU kernels of optimisers read and write: settings as they were written, tensors as floats where they lie or
// as blocks of float on the stack.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "aspen/backends/api/kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/elementwise.h"
#include "aspen/ops/optimizer/settings.h"

namespace aspen {

// Reading a setting as it was written takes longer than updating a small parameter, and settings seldom change: each
// thread remembers what it last read.
inline double setting(const float* values, Setting which) {
  struct Known {
    float value = 0;
    double written = 0;
  };
  thread_local Known known[kNumSettings];
  Known& k = known[which];
  if (k.value != values[which]) k = {values[which], as_written(values[which])};
  return k.written;
}

inline constexpr std::size_t kMostInputs = 7;  // of lamb_step
inline constexpr std::int64_t kBlock = 512;    // elements of one tensor converted at a time

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

inline bool declines(const KernelRequest& request, std::string& why) {
  for (const auto& input : request.inputs) {
    if (input.type.dtype == DType::kF64) continue;  // norms, in double on all backends
    if (input.type.dtype != DType::kF32 && !is_narrow_float(input.type.dtype)) {
      why = fmt::format("{}: the vector loop takes f32, f16 and bf16, not {}", request.op, to_string(input.type));
      return true;
    }
  }
  return false;
}

inline const float* floats(const KernelArgs& args, std::size_t input) {
  return static_cast<const float*>(args.inputs[input]);
}

void register_lamb_cpu(KernelRegistry& kernels);

}  // namespace aspen
