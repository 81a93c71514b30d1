#include "aspen/runtime/output_sink.h"

#include <cstring>

#include "aspen/backends/api/convert.h"
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
                       std::int64_t accumulation, bool has_transfers) {
  if (has_transfers && output.data == nullptr && type_.bytes() != 0)
    throw InternalError("output \"{}\" has no host memory", name);
  if (output.mode == OutputMode::kEveryN &&
      (output.period < 1 || output.period > device_iterations || device_iterations % output.period != 0)) {
    throw UserError(
        "output \"{}\" is to be returned every {} device iterations, which does not divide the {} of this run.", name,
        output.period, device_iterations);
  }
  output_ = output;
  device_iterations_ = device_iterations;
  accumulation_ = accumulation;
  has_transfers_ = has_transfers;
  if (!keeps_blocks()) room_.resize(type_.bytes());
  stamps_.begin(has_transfers ? num_returned(output, device_iterations, accumulation) : 0);
  if (output.mode == OutputMode::kSum && is_narrow_float(type_.dtype)) {
    float_sum_.assign(static_cast<std::size_t>(type_.numel()), 0.0f);
  }
}

// The block that a micro-batch belongs to among those the host gets.
std::int64_t OutputSink::block_of(std::int64_t micro_batch) const {
  switch (output_.mode) {
    case OutputMode::kAll: return micro_batch;
    case OutputMode::kEveryN:
      return micro_batch / accumulation_ / output_.period * accumulation_ + micro_batch % accumulation_;
    case OutputMode::kFinal:
    case OutputMode::kSum: break;
  }
  return 0;
}

// The block that a micro-batch completes; nothing: it completes none.
std::optional<std::int64_t> OutputSink::position(std::int64_t micro_batch) const {
  const std::int64_t next = micro_batch / accumulation_ + 1;
  bool completes = true;
  switch (output_.mode) {
    case OutputMode::kAll: break;
    case OutputMode::kEveryN: completes = next % output_.period == 0; break;
    case OutputMode::kFinal:
    case OutputMode::kSum: completes = micro_batch + 1 == device_iterations_ * accumulation_; break;
  }
  return completes ? std::optional(block_of(micro_batch)) : std::nullopt;
}

std::byte* OutputSink::place(std::int64_t micro_batch) {
  return keeps_blocks() ? block(block_of(micro_batch)) : room_.data();
}

bool OutputSink::wants(std::int64_t micro_batch) const {
  return has_transfers_ && (output_.mode == OutputMode::kSum || position(micro_batch).has_value());
}

TransferStamps::Clock::time_point OutputSink::take(const void* data, std::int64_t micro_batch,
                                                   TransferStamps::Clock::time_point ready) {
  const std::optional<std::int64_t> completed = position(micro_batch);
  if (output_.mode == OutputMode::kSum) {
    add(data, micro_batch == 0);
  } else if (completed) {
    put(data, *completed);
  }
  const auto end = TransferStamps::Clock::now();
  if (completed) stamps_.set(*completed, ready, end);
  return end;
}

std::byte* OutputSink::block(std::int64_t position) const {
  return static_cast<std::byte*>(output_.data) +
         (static_cast<std::size_t>(position) * replicas_ + replica_) * type_.bytes();
}

void OutputSink::put(const void* data, std::int64_t position) {
  std::size_t bytes = type_.bytes();
  if (bytes != 0 && data != block(position)) std::memcpy(block(position), data, bytes);
}

void OutputSink::add(const void* data, bool is_first) {
  std::int64_t count = type_.numel();
  dispatch_stored(type_.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = static_cast<const T*>(data);
    if constexpr (is_narrow_float(dtype_of<T>())) {
      for (std::int64_t i = 0; i < count; ++i) float_sum_[i] += static_cast<float>(from[i]);
    } else {
      T* to = reinterpret_cast<T*>(block(0));
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(is_first ? from[i] : to[i] + from[i]);
    }
  });
}

void OutputSink::finish() {
  if (!has_transfers_ || output_.mode != OutputMode::kSum || !is_narrow_float(type_.dtype)) return;
  dispatch_stored(type_.dtype, [&](auto tag) {
    auto* to = reinterpret_cast<typename decltype(tag)::type*>(block(0));
    std::transform(float_sum_.begin(), float_sum_.end(), to, convert<typename decltype(tag)::type, float>);
  });
}

}  // namespace aspen
