// OutputSink: takes one output of the program after every micro-batch and keeps what its mode asks for.
// The executor owns one per output; nothing is allocated between begin() and finish().
#pragma once

#include <cstdint>
#include <vector>

#include "aspen/base/tensor_type.h"
#include "aspen/runtime/executor.h"

namespace aspen {

// How many micro-batches of an output a run returns.
std::int64_t num_returned(const HostOutput& output, std::int64_t device_iterations, std::int64_t accumulation);

class OutputSink {
 public:
  explicit OutputSink(TensorType type) : type_(std::move(type)) {}

  // Checks the request and forgets the previous run; `name` is for messages.
  void begin(const HostOutput& output, const std::string& name, std::int64_t device_iterations,
             std::int64_t accumulation);
  void take(const void* data, std::int64_t iteration, std::int64_t accumulation_step);
  void finish();

 private:
  void append(const void* data);
  void add(const void* data);

  TensorType type_;
  HostOutput output_;
  std::int64_t device_iterations_ = 1, accumulation_ = 1, num_taken_ = 0;
  std::vector<float> half_sum_;  // kSum of half adds up in float and rounds once
};

}  // namespace aspen
