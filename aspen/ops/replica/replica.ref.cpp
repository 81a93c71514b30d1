#include "aspen/ops/replica/replica.h"

#include <cstring>

#include "aspen/backends/api/kernel.h"
#include "aspen/base/replica_grouping.h"

namespace aspen {
namespace {

// Where the bytes of the replica's own shard of input 0 lie.
struct ByteRange {
  std::size_t first, size;
};

ByteRange own_shard(const KernelCall& call) {
  const TensorType& whole = call.in_type(0);
  auto [first, last] = shard_of(whole.numel(), static_cast<std::size_t>(call.step().replica),
                                static_cast<std::size_t>(call.attrs<ReplicaAttrs>().replicas));
  std::size_t element = size_of(whole.dtype);
  return {static_cast<std::size_t>(first) * element, static_cast<std::size_t>(last - first) * element};
}

void replica_slice(const KernelCall& call) {
  ByteRange own = own_shard(call);
  auto* to = call.out<std::byte>(0);
  if (own.size > 0) std::memcpy(to, call.in<std::byte>(0) + own.first, own.size);
  std::size_t padding = call.out_type(0).bytes() - own.size;
  if (padding > 0) std::memset(to + own.size, 0, padding);
}

void replica_write(const KernelCall& call) {
  ByteRange own = own_shard(call);
  auto* to = call.out<std::byte>(0);
  if (to != call.in<std::byte>(0) && call.in_type(0).bytes() > 0) {
    std::memcpy(to, call.in<void>(0), call.in_type(0).bytes());
  }
  if (own.size > 0) std::memcpy(to + own.first, call.in<void>(1), own.size);
}

// One input for each replica.
void replica_gather(const KernelCall& call) {
  const TensorType& whole = call.out_type(0);
  auto replicas = static_cast<std::size_t>(call.attrs<ReplicaGatherAttrs>().replicas);
  std::size_t element = size_of(whole.dtype);
  for (std::size_t replica = 0; replica < replicas; ++replica) {
    auto [first, last] = shard_of(whole.numel(), replica, replicas);
    if (first == last) continue;
    std::memcpy(call.out<std::byte>(0) + static_cast<std::size_t>(first) * element, call.in<std::byte>(replica),
                static_cast<std::size_t>(last - first) * element);
  }
}

// Inputs are the shard of each replica, which are written to, and the contribution.
template <class T>
void add_to_shards(const KernelCall& call) {
  auto replicas = static_cast<std::size_t>(call.attrs<ReplicaAttrs>().replicas);
  const T* x = call.in<T>(replicas);
  for (std::size_t replica = 0; replica < replicas; ++replica) {
    auto [first, last] = shard_of(call.in_type(1).numel(), replica, replicas);
    T* shard = const_cast<T*>(call.in<T>(replica));
    for (std::int64_t i = first; i < last; ++i) {
      shard[i - first] = static_cast<T>(static_cast<float>(shard[i - first]) + static_cast<float>(x[i]));
    }
  }
}

void replica_add(const KernelCall& call) {
  switch (call.in_type(0).dtype) {
    case DType::kF16: return add_to_shards<Half>(call);
    case DType::kBF16: return add_to_shards<BFloat16>(call);
    default: return add_to_shards<float>(call);
  }
}

template <class T>
void sum_over_replicas(const KernelCall& call) {
  for (std::int64_t i = 0, n = call.out_type(0).numel(); i < n; ++i) {
    T sum = 0;
    for (std::int64_t replica = 0; replica < call.attrs<ReplicaAttrs>().replicas; ++replica) {
      sum += call.in<T>(static_cast<std::size_t>(replica))[i];
    }
    call.out<T>(0)[i] = sum;
  }
}

void replica_sum(const KernelCall& call) {
  call.out_type(0).dtype == DType::kF64 ? sum_over_replicas<double>(call) : sum_over_replicas<float>(call);
}

}  // namespace

void register_replica_ref(KernelRegistry& kernels) {
  kernels.add("replica_slice", replica_slice);
  kernels.add("replica_write", replica_write);
  kernels.add("replica_gather", replica_gather);
  kernels.add("replica_sum", replica_sum);
  kernels.add("replica_add", replica_add);
}

}  // namespace aspen
