// OutputSink: takes one output of one replica after every micro-batch and keeps what its mode asks for.
// The executor owns one per output and replica; nothing is allocated between begin() and finish().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "aspen/base/tensor_type.h"
#include "aspen/runtime/executor.h"
#include "aspen/runtime/transfer_stamps.h"

namespace aspen {

// How many micro-batches of an output a run returns, per replica.
std::int64_t num_returned(const HostOutput& output, std::int64_t device_iterations, std::int64_t accumulation);

class OutputSink {
 public:
  // The blocks of `replica` among those of `replicas`.
  OutputSink(TensorType type, std::size_t replica, std::size_t replicas)
      : type_(std::move(type)), replica_(replica), replicas_(replicas) {}

  // Checks the request and forgets the previous run; `name` is for messages. Without transfers nothing is wanted.
  void begin(const HostOutput& output, const std::string& name, std::int64_t device_iterations,
             std::int64_t accumulation, bool has_transfers);
  // Where a program may write the output of a micro-batch, for take() to find it there. Micro-batches of which only the
  // last reaches the host write over each other.
  std::byte* place(std::int64_t micro_batch);
  // Whether a micro-batch matters to the mode at all.
  bool wants(std::int64_t micro_batch) const;
  // Micro-batches come in ascending order. The data has been there since `ready`; returns the end of the transfer.
  TransferStamps::Clock::time_point take(const void* data, std::int64_t micro_batch,
                                         TransferStamps::Clock::time_point ready);
  void finish();

  const TransferStamps& stamps() const { return stamps_; }  // of what reached the host

 private:
  bool keeps_blocks() const { return has_transfers_ && output_.mode != OutputMode::kSum; }
  std::int64_t block_of(std::int64_t micro_batch) const;
  std::optional<std::int64_t> position(std::int64_t micro_batch) const;
  void put(const void* data, std::int64_t position);
  void add(const void* data, bool is_first);
  std::byte* block(std::int64_t position) const;

  TensorType type_;
  std::size_t replica_, replicas_;
  HostOutput output_;
  std::int64_t device_iterations_ = 1, accumulation_ = 1;
  bool has_transfers_ = true;
  TransferStamps stamps_;
  std::vector<std::byte> room_;   // of one micro-batch, where there is no block for it
  std::vector<float> float_sum_;  // kSum of half and bfloat16 adds up in float and rounds once
};

}  // namespace aspen
