#include "aspen/runtime/output_sink.h"

#include <cstring>

#include "aspen/base/error.h"

namespace aspen {

std::int64_t num_returned(const HostOutput& output, std::int64_t device_iterations, std::int64_t accumulation) {
  switch (output.mode) {
    case OutputMode::kFinal:
    case OutputMode::kSum: return 1;
    case OutputMode::kEveryN: return device_iterations / output.period * accumulation;
    case OutputMode::kAll: break;
  }
  return device_iterations * accumulation;
}

void OutputSink::begin(const HostOutput& output, const std::string& name, std::int64_t device_iterations,
                       std::int64_t accumulation) {
  if (output.data == nullptr && type_.bytes() != 0) throw InternalError("output \"{}\" has no host memory", name);
  if (output.mode == OutputMode::kEveryN &&
      (output.period < 1 || output.period > device_iterations || device_iterations % output.period != 0)) {
    throw UserError(
        "output \"{}\" is to be returned every {} device iterations, which does not divide the {} of this run.", name,
        output.period, device_iterations);
  }
  output_ = output;
  device_iterations_ = device_iterations;
  accumulation_ = accumulation;
  num_taken_ = 0;
  if (output.mode == OutputMode::kSum && type_.dtype == DType::kF16) {
    half_sum_.assign(static_cast<std::size_t>(type_.numel()), 0.0f);
  }
}

void OutputSink::take(const void* data, std::int64_t iteration, std::int64_t accumulation_step) {
  switch (output_.mode) {
    case OutputMode::kAll: return append(data);
    case OutputMode::kEveryN:
      if ((iteration + 1) % output_.period == 0) append(data);
      return;
    case OutputMode::kFinal:
      if (iteration + 1 == device_iterations_ && accumulation_step + 1 == accumulation_) append(data);
      return;
    case OutputMode::kSum: return add(data);
  }
}

void OutputSink::append(const void* data) {
  std::size_t bytes = type_.bytes();
  if (bytes != 0) std::memcpy(static_cast<std::byte*>(output_.data) + num_taken_ * bytes, data, bytes);
  ++num_taken_;
}

void OutputSink::add(const void* data) {
  bool first = num_taken_++ == 0;
  std::int64_t count = type_.numel();
  if (type_.dtype == DType::kF16) {
    const auto* from = static_cast<const Half*>(data);
    for (std::int64_t i = 0; i < count; ++i) half_sum_[i] += static_cast<float>(from[i]);
    return;
  }
  dispatch(type_.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = static_cast<const T*>(data);
    T* to = static_cast<T*>(output_.data);
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(first ? from[i] : to[i] + from[i]);
  });
}

void OutputSink::finish() {
  if (output_.mode != OutputMode::kSum || type_.dtype != DType::kF16) return;
  auto* to = static_cast<Half*>(output_.data);
  for (std::size_t i = 0; i < half_sum_.size(); ++i) to[i] = static_cast<Half>(half_sum_[i]);
}

}  // namespace aspen
