// Shards of tensors that all replicas hold: each replica takes out its own, works on it and puts it back; and tensors
// of which each replica holds a shard only. Made by the compiler where optimiser state or weights are sharded, after
// autodiff: they have no gradients.
#include "aspen/ops/replica/replica.h"

#include "aspen/base/replica_grouping.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

TensorType shard_type(const InferContext& c) {
  std::int64_t replicas = c.attrs<ReplicaAttrs>().replicas;
  c.check(replicas >= 1, "cannot cut a tensor for {} replicas; there is at least one.", replicas);
  return {c.in(0).dtype, {shard_elements(c.in(0).numel(), static_cast<std::size_t>(replicas))}};
}

std::vector<TensorType> infer_write(const InferContext& c) {
  TensorType shard = shard_type(c);
  c.check(c.in(1) == shard, "a shard of {} is {}, not {}.", to_string(c.in(0)), to_string(shard), to_string(c.in(1)));
  return {c.in(0)};
}

std::vector<TensorType> infer_gather(const InferContext& c) {
  const auto& attrs = c.attrs<ReplicaGatherAttrs>();
  c.check(attrs.replicas >= 1, "cannot gather a tensor of {} replicas; there is at least one.", attrs.replicas);
  TensorType whole{c.in(0).dtype, attrs.shape};
  TensorType shard{whole.dtype, {shard_elements(whole.numel(), static_cast<std::size_t>(attrs.replicas))}};
  c.check(c.in(0) == shard, "a shard of {} is {}, not {}.", to_string(whole), to_string(shard), to_string(c.in(0)));
  return {whole};
}

}  // namespace

void define_replica(OpRegistry& ops) {
  // Both are `random` for one of its meanings, never folded: their result is another on each replica.
  ops.define<ReplicaAttrs>("replica_slice")
      .summary("The replica's own shard of x, flat; where x ends before the shard does, zeros follow.")
      .input("x", "any type")
      .output("shard", "type of x, numel(x) / replicas elements, rounded up")
      .infer([](const InferContext& c) -> std::vector<TensorType> { return {shard_type(c)}; })
      .random()
      .example({.inputs = {{DType::kF32, {3, 5}}}, .attrs = Attrs::of(ReplicaAttrs{})})
      .example({.inputs = {{DType::kF16, {3, 5}}}, .attrs = Attrs::of(ReplicaAttrs{4})});
  ops.define<ReplicaAttrs>("replica_write")
      .summary("x, with the replica's own shard of it replaced.")
      .input("x", "any type")
      .input("shard", "as replica_slice gives it")
      .output("y", "x")
      .infer(infer_write)
      .inplace(0, 0)
      .random()
      .example({.inputs = {{DType::kF32, {3, 5}}, {DType::kF32, {15}}}, .attrs = Attrs::of(ReplicaAttrs{})})
      .example({.inputs = {{DType::kF16, {3, 5}}, {DType::kF16, {4}}}, .attrs = Attrs::of(ReplicaAttrs{4})});
  // The executor hands the next three the shard, or the value, of every replica.
  ops.define<ReplicaAttrs>("replica_add")
      .summary("Adds x to a variable that each replica keeps a shard of, after the replicas before it have done so.")
      .input("shard", "the replica's own")
      .input("x", "type of the shard, any shape: what the replica contributes to the whole")
      .infer([](const InferContext& c) -> std::vector<TensorType> {
        std::int64_t replicas = c.attrs<ReplicaAttrs>().replicas;
        c.check(replicas >= 1, "cannot add to shards of {} replicas; there is at least one.", replicas);
        TensorType shard{c.in(1).dtype, {shard_elements(c.in(1).numel(), static_cast<std::size_t>(replicas))}};
        c.check(c.in(0) == shard, "a shard of {} is {}, not {}.", to_string(c.in(1)), to_string(shard),
                to_string(c.in(0)));
        return {};
      })
      .impure();
  ops.define<ReplicaAttrs>("replica_sum")
      .summary("The sum of a value over all replicas, in their order.")
      .input("x", "f32 or f64")
      .output("y", "x")
      .infer([](const InferContext& c) -> std::vector<TensorType> {
        c.check(c.in(0).dtype == DType::kF32 || c.in(0).dtype == DType::kF64, "takes f32 or f64, not {}.",
                to_string(c.in(0)));
        return {c.in(0)};
      })
      .random()
      .example({.inputs = {{DType::kF64, {2}}}, .attrs = Attrs::of(ReplicaAttrs{})})
      .example({.inputs = {{DType::kF32, {}}}, .attrs = Attrs::of(ReplicaAttrs{})});
  ops.define<ReplicaGatherAttrs>("replica_gather")
      .summary("The whole of a variable that each replica keeps a shard of.")
      .input("shard", "the replica's own, as replica_slice gives it")
      .output("x", "type of the shard, the shape asked for")
      .infer(infer_gather)
      .random()
      .example({.inputs = {{DType::kF32, {15}}}, .attrs = Attrs::of(ReplicaGatherAttrs{.shape = {3, 5}})});
}

}  // namespace aspen
