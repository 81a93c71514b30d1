#include "aspen/compiler/stochastic_rounding.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "aspen/backends/api/through_float.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/cast/cast.h"
#include "aspen/ops/random/random.h"
#include "aspen/ops/source/source.h"

namespace aspen {
namespace {

// -- streams --------------------------------------------------------------------------------------------------------
// FNV-1a: equal on every machine, unlike std::hash.
constexpr std::uint64_t kPrime = 1099511628211u;

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (unsigned char c : text) hash = (hash ^ c) * kPrime;
  return hash;
}

std::uint64_t hash_of(const Blob& blob) {
  if (!blob.bytes) return 1;
  return hash_of(std::string_view(reinterpret_cast<const char*>(blob.bytes->data()), blob.bytes->size()));
}

// Hands a value on as it is, to another task, replica or place.
bool is_transfer(const Op& op) {
  return op.is("send") || op.is("store") || op.is("load") || op.is("replica_slice") || op.is("replica_gather") ||
         op.def().is_alias();
}

// -- the kernel -----------------------------------------------------------------------------------------------------
using Draws = Rounding::Draws;

Draws draws_of(const Op& op) {
  if (op.section != Section::kUpdate) return Draws::kPerReplica;
  const Value* first = op.input(0);
  while (first->producer() != nullptr && first->producer()->is("load")) first = first->producer()->input(0);
  const Op* before = first->producer();
  bool is_shard =
      before == nullptr ? first->variable() != nullptr && first->variable()->sharded : before->is("replica_slice");
  return is_shard ? Draws::kPerShard : Draws::kShared;
}

std::int64_t draws_of(Draws draws) {
  switch (draws) {
    case Draws::kShared: return RoundAtRandomAttrs::kShared;
    case Draws::kPerShard: return RoundAtRandomAttrs::kPerShard;
    case Draws::kPerReplica: break;
  }
  return RoundAtRandomAttrs::kPerReplica;
}

// Streams of roundings are those with the highest bit set; random ops have the others.
std::int64_t stream_of(const Rounding& rounding, std::size_t output) {
  const std::uint64_t stream = static_cast<std::uint64_t>(rounding.stream) + output;
  return static_cast<std::int64_t>(0x80000000u | stream * 0x9E3779B97F4A7C15u >> 33);
}

// Halves are widened and rounded by kernels of the backend.
class RandomRounding final : public FloatConversion {
 public:
  RandomRounding(const KernelRequest& request, const Backend& backend) {
    for (const KernelInput& input : request.inputs) {
      if (!input.present || !takes(input.type.dtype)) continue;
      std::unique_ptr<Kernel>& cast = casts_[input.type.numel()];
      if (cast != nullptr) continue;
      const Shape shape{input.type.numel()};
      cast = backend.create_kernel({.op = "cast",
                                    .attrs = Attrs::of(CastAttrs{DType::kF32}),
                                    .inputs = {{{DType::kF16, shape}}},
                                    .outputs = {{DType::kF32, shape}}});
    }
    for (std::size_t i = 0; i < request.outputs.size(); ++i) {
      std::unique_ptr<Kernel>& round = rounds_.emplace_back();
      if (!takes(request.outputs[i].dtype)) continue;
      const Shape shape{request.outputs[i].numel()};
      const RoundAtRandomAttrs attrs{stream_of(request.rounding, i), draws_of(request.rounding.draws)};
      round = backend.create_kernel({.op = "round_at_random",
                                     .attrs = Attrs::of(attrs),
                                     .inputs = {{{DType::kF32, shape}}},
                                     .outputs = {{DType::kF16, shape}}});
    }
  }

  bool takes(DType type) const override { return type == DType::kF16; }

  void widen(const KernelArgs& args, DType, const void* from, float* to, std::int64_t n) const override {
    run(*casts_.at(n), args, from, to);
  }
  void round(const KernelArgs& args, std::size_t output, DType, const float* from, void* to,
             std::int64_t) const override {
    run(*rounds_[output], args, from, to);
  }

 private:
  static void run(const Kernel& kernel, const KernelArgs& args, const void* from, void* to) {
    const void* inputs[] = {from};
    void* outputs[] = {to};
    kernel.run({.inputs = inputs, .outputs = outputs, .workspace = nullptr, .step = args.step});
  }

  std::map<std::int64_t, std::unique_ptr<Kernel>> casts_;  // by number of elements
  std::vector<std::unique_ptr<Kernel>> rounds_;            // by result
};

}  // namespace

bool rounds_to_half(const Op& op) {
  if (op.def().does_own_graphs()) return has_in_bodies(op, rounds_to_half);
  if (op.num_inputs() == 0 || only_moves(op) || is_transfer(op) || op.is_impure()) return false;
  std::vector<Value*> outputs = op.outputs();
  return std::any_of(outputs.begin(), outputs.end(), [](const Value* y) { return y->dtype() == DType::kF16; });
}

RandomRoundings::RandomRoundings(const Graph& graph) {
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(graph.num_values()), 0);  // by value id
  for (const auto& input : graph.inputs()) hashes[input->id()] = hash_of("input " + input->name());
  for (const auto& variable : graph.variables()) hashes[variable->value->id()] = hash_of("variable " + variable->name);
  for (const auto& op : graph.ops()) {
    if (is_transfer(*op)) {
      hashes[op->output()->id()] = hashes[op->input(0)->id()];
      continue;
    }
    std::uint64_t hash =
        op->is("constant") ? hash_of(op->attrs<ConstantAttrs>().data) : hash_of(op->name() + op->attrs().to_string());
    // An update follows from the parameter alone: whether its gradient comes from an accumulator depends on the
    // devices.
    std::size_t num_inputs = is_update(*op) ? 1 : op->num_inputs();
    for (std::size_t i = 0; i < num_inputs; ++i) {
      hash = (hash ^ (op->input(i) == nullptr ? 1 : hashes[op->input(i)->id()])) * kPrime;
    }
    for (const Value* output : op->outputs()) hashes[output->id()] = hash + output->index();
    if (rounds_to_half(*op)) {
      roundings_.emplace(op.get(), Rounding{static_cast<std::int64_t>(hash >> 1 | 1), draws_of(*op)});
    }
  }
}

Rounding RandomRoundings::operator[](const Op& op) const {
  auto found = roundings_.find(&op);
  return found == roundings_.end() ? Rounding{} : found->second;
}

std::unique_ptr<Kernel> make_randomly_rounded(const KernelRequest& request, const Backend& backend) {
  auto rounding = std::make_shared<const RandomRounding>(request, backend);
  KernelRequest wide = *widened_request(request, *rounding);
  wide.rounding = {};
  return make_through_float(request, std::move(rounding), backend.create_kernel(wide));
}

}  // namespace aspen
