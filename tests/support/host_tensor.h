// HostTensor: a contiguous tensor in ordinary memory, for tests. Numbers go in and out as double, whatever the type.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "aspen/base/tensor_type.h"

namespace aspen::testing {

// Kernels may count on buffers that start on a cache line.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kLine); }
  bool operator==(const LineAllocator&) const = default;
};

using AlignedBytes = std::vector<std::byte, LineAllocator<std::byte>>;

class HostTensor {
 public:
  HostTensor() = default;
  explicit HostTensor(TensorType type) : type_(std::move(type)), bytes_(type_.bytes()) {}  // zeros
  HostTensor(TensorType type, const std::vector<double>& numbers);

  const TensorType& type() const { return type_; }
  std::int64_t size() const { return type_.numel(); }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  double at(std::int64_t i) const;
  void set(std::int64_t i, double value);
  std::vector<double> numbers() const;
  bool operator==(const HostTensor& other) const { return type_ == other.type_ && bytes_ == other.bytes_; }

 private:
  TensorType type_;
  AlignedBytes bytes_;
};

// A tensor full of nonsense (NaN for floating types): what an output holds before its kernel ran.
HostTensor poisoned(const TensorType& type);

// Floating elements uniform in [low, high), integers in [int_low, int_high), bools either; the same for equal seeds.
struct Range {
  double low = -1, high = 1;
  std::int64_t int_low = 0, int_high = 2;
};
HostTensor random_tensor(const TensorType& type, const Range& range, std::uint64_t seed);

}  // namespace aspen::testing
