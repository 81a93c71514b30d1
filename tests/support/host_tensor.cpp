#include "tests/support/host_tensor.h"

#include <cstring>
#include <random>

#include "aspen/backends/api/convert.h"
#include "aspen/base/error.h"

namespace aspen::testing {

HostTensor::HostTensor(TensorType type, const std::vector<double>& numbers) : HostTensor(std::move(type)) {
  if (static_cast<std::int64_t>(numbers.size()) != size()) {
    throw InternalError("{} numbers for a tensor of type {}", numbers.size(), to_string(type_));
  }
  for (std::int64_t i = 0; i < size(); ++i) set(i, numbers[i]);
}

double HostTensor::at(std::int64_t i) const {
  return dispatch_stored(type_.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return convert<double>(reinterpret_cast<const T*>(bytes_.data())[i]);
  });
}

void HostTensor::set(std::int64_t i, double value) {
  dispatch_stored(type_.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reinterpret_cast<T*>(bytes_.data())[i] = convert<T>(value);
  });
}

std::vector<double> HostTensor::numbers() const {
  std::vector<double> result(size());
  for (std::int64_t i = 0; i < size(); ++i) result[i] = at(i);
  return result;
}

HostTensor poisoned(const TensorType& type) {
  HostTensor tensor(type);
  // All bits set is NaN in every floating type; a bool must stay 0 or 1.
  int byte = is_floating(type.dtype) ? 0xff : type.dtype == DType::kBool ? 1 : 0x55;
  if (type.bytes() > 0) std::memset(tensor.data(), byte, type.bytes());
  return tensor;
}

HostTensor random_tensor(const TensorType& type, const Range& range, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> real(range.low, range.high);
  std::uniform_int_distribution<std::int64_t> integer(range.int_low, range.int_high - 1);
  HostTensor tensor(type);
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    if (type.dtype == DType::kBool) {
      tensor.set(i, static_cast<double>(generator() & 1));
    } else {
      tensor.set(i, is_floating(type.dtype) ? real(generator) : static_cast<double>(integer(generator)));
    }
  }
  return tensor;
}

}  // namespace aspen::testing
