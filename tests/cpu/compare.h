// Runs one op on the cpu backend and on the reference with the same numbers and compares the results: for shapes the
// examples of the ops do not reach. A request that falls back to the reference kernel is a failure unless the test says
// that it should: comparing a kernel with itself shows nothing.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "aspen/backends/api/convert.h"
#include "aspen/backends/cpu/cpu_backend.h"
#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen::testing {

// 64-byte aligned, as a program gives buffers. A guard behind the end shows writes past it.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : bytes_(bytes), data_(std::aligned_alloc(64, (bytes + kGuard + 63) / 64 * 64), std::free) {
    std::fill_n(static_cast<unsigned char*>(data_.get()), bytes + kGuard, kMark);
  }
  void* get() const { return data_.get(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_.get());
  }
  bool intact() const {
    auto* end = static_cast<const unsigned char*>(data_.get()) + bytes_;
    return std::all_of(end, end + kGuard, [](unsigned char c) { return c == kMark; });
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr unsigned char kMark = 0xa5;
  std::size_t bytes_;
  std::unique_ptr<void, decltype(&std::free)> data_;
};

// An optional input left out is std::nullopt.
using InputTypes = std::vector<std::optional<TensorType>>;

inline KernelRequest request_of(const std::string& op, const Attrs& attrs, const InputTypes& inputs) {
  Graph graph;
  std::vector<Value*> values;
  for (const auto& type : inputs) values.push_back(type ? graph.add_input("x", *type) : nullptr);
  const Op* made = graph.add_op(op_registry().find(op), values, attrs);
  KernelRequest request{.op = op, .attrs = attrs, .inputs = {}, .outputs = {}};
  for (const auto& type : inputs) request.inputs.push_back({type.value_or(TensorType{}), type.has_value()});
  for (const Value* output : made->outputs()) request.outputs.push_back(output->type());
  return request;
}

// The cpu backend without its fallback: refuses what only the reference kernel can do. The error is none of ours, so
// that no test takes it for one it expects.
class TunedBackend final : public Backend {
 public:
  TunedBackend() { register_cpu_kernels(tuned_); }
  std::string name() const override { return "cpu, own kernels only"; }
  bool takes(const KernelRequest& request, std::string& why) const { return tuned_.create(request, why) != nullptr; }
  std::unique_ptr<Kernel> create_kernel(const KernelRequest& request) const override {
    std::string why;
    if (takes(request, why)) return cpu_->create_kernel(request);
    throw std::logic_error("the cpu backend takes the reference kernel for " + to_string(request) + ": " + why);
  }

 private:
  KernelRegistry tuned_;
  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
};

inline const TunedBackend& tuned_backend() {
  static const TunedBackend backend;
  return backend;
}

// With the operand packed beforehand: the bits are those of `wanted`, which args.outputs point to.
inline void expect_same_if_packed(const Kernel& kernel, const KernelRequest& request, KernelArgs args,
                                  const std::vector<Buffer>& wanted) {
  Buffer packed(kernel.packed_bytes());
  kernel.pack(args, packed.get());
  EXPECT_TRUE(packed.intact()) << to_string(request) << " writes past what it packs";
  std::vector<Buffer> results;
  std::vector<void*> outputs;
  for (const TensorType& type : request.outputs) outputs.push_back(results.emplace_back(type.bytes()).get());
  args.outputs = outputs;
  args.packed = packed.get();
  kernel.run(args);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(std::memcmp(results[i].get(), wanted[i].get(), request.outputs[i].bytes()), 0)
        << to_string(request) << " has other bits with an operand that was packed before";
  }
}

inline std::vector<Buffer> run_kernel(const Backend& backend, const KernelRequest& request,
                                      const std::vector<const void*>& inputs, const StepContext& step = {}) {
  std::unique_ptr<Kernel> kernel = backend.create_kernel(request);
  Buffer workspace(kernel->workspace_bytes());
  std::vector<Buffer> results;
  std::vector<void*> outputs;
  for (const TensorType& type : request.outputs) {
    results.emplace_back(type.bytes());
    outputs.push_back(results.back().get());
  }
  const KernelArgs args{inputs, outputs, workspace.get(), &step};
  kernel->run(args);
  EXPECT_TRUE(workspace.intact()) << to_string(request) << " writes past its workspace";
  for (const Buffer& result : results) EXPECT_TRUE(result.intact()) << to_string(request) << " writes past its output";
  if (kernel->packed_bytes() != 0) expect_same_if_packed(*kernel, request, args, results);
  return results;
}

// Fills floats from [low, high), integers and bools from [bottom, top).
inline Buffer random_buffer(const TensorType& type, std::mt19937& random, double low, double high, std::int64_t top,
                            std::int64_t bottom = 0) {
  Buffer buffer(type.bytes());
  std::uniform_real_distribution<double> real(low, high);
  std::uniform_int_distribution<std::int64_t> whole(bottom, top - 1);
  dispatch_stored(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < type.numel(); ++i) {
      buffer.as<T>()[i] = convert<T>(is_floating(type.dtype) ? real(random) : whole(random));
    }
  });
  return buffer;
}

// An error of `tolerance` times the largest element (sums in another order), or 0: equal to the last bit.
inline void expect_close(const TensorType& type, const Buffer& expected, const Buffer& actual, double tolerance,
                         const std::string& what) {
  dispatch_stored(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    double largest = 0;
    for (std::int64_t i = 0; i < type.numel(); ++i) {
      double e = convert<double>(expected.as<T>()[i]);
      if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
    }
    for (std::int64_t i = 0; i < type.numel(); ++i) {
      double e = convert<double>(expected.as<T>()[i]), a = convert<double>(actual.as<T>()[i]);
      bool same = e == a || (std::isnan(e) && std::isnan(a)) || std::abs(e - a) <= tolerance * largest;
      ASSERT_TRUE(same) << what << ": element " << i << " is " << a << ", the reference has " << e;
    }
  });
}

struct CompareOptions {
  double tolerance = 2e-6;
  double low = -1, high = 1;
  std::int64_t top = 2, bottom = 0;
  bool on_reference = false;  // the cpu backend is expected to fall back
};

inline void compare(const std::string& op, const Attrs& attrs, const InputTypes& inputs,
                    const CompareOptions& options = {}) {
  static const auto reference = make_reference_backend();
  static const auto cpu = make_cpu_backend();
  KernelRequest request = request_of(op, attrs, inputs);
  std::string why;
  ASSERT_TRUE(tuned_backend().takes(request, why) != options.on_reference)
      << to_string(request) << (options.on_reference ? " has a kernel of its own now; say so" : " falls back: " + why);
  std::mt19937 random(7);
  std::vector<Buffer> buffers;
  std::vector<const void*> pointers;
  for (const auto& type : inputs) {
    if (type) buffers.push_back(random_buffer(*type, random, options.low, options.high, options.top, options.bottom));
    pointers.push_back(type ? buffers.back().get() : nullptr);
  }
  StepContext step{.seed = 42, .step = 3, .replica = 0};
  auto expected = run_kernel(*reference, request, pointers, step);
  auto actual = run_kernel(*cpu, request, pointers, step);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expect_close(request.outputs[i], expected[i], actual[i], options.tolerance, to_string(request));
  }
}

inline TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
inline TensorType f16(Shape shape) { return {DType::kF16, std::move(shape)}; }
inline TensorType bf16(Shape shape) { return {DType::kBF16, std::move(shape)}; }
inline TensorType i32(Shape shape) { return {DType::kI32, std::move(shape)}; }

}  // namespace aspen::testing
