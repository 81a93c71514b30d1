// OutputSink: takes one output of one replica after every micro-batch and keeps what its mode asks for.
// The executor owns one per output and replica; nothing is allocated between begin() and finish().
#pragma once

#include <cstdint>
#include <vector>

#include "aspen/base/tensor_type.h"
#include "aspen/runtime/executor.h"

namespace aspen {

// How many micro-batches of an output a run returns, per replica.
std::int64_t num_returned(const HostOutput& output, std::int64_t device_iterations, std::int64_t accumulation);

class OutputSink {
 public:
  // The blocks of `replica` among those of `replicas`.
  OutputSink(TensorType type, std::size_t replica, std::size_t replicas)
      : type_(std::move(type)), replica_(replica), replicas_(replicas) {}

  // Checks the request and forgets the previous run; `name` is for messages.
  void begin(const HostOutput& output, const std::string& name, std::int64_t device_iterations,
             std::int64_t accumulation);
  // Micro-batches come in ascending order.
  void take(const void* data, std::int64_t micro_batch);
  void finish();

 private:
  void put(const void* data, std::int64_t position);
  void add(const void* data, bool is_first);
  std::byte* block(std::int64_t position) const;

  TensorType type_;
  std::size_t replica_, replicas_;
  HostOutput output_;
  std::int64_t device_iterations_ = 1, accumulation_ = 1;
  std::vector<float> half_sum_;  // kSum of half adds up in float and rounds once
};

}  // namespace aspen
