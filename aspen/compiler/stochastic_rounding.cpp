#include "aspen/compiler/stochastic_rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "aspen/backends/api/through_float.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/random/philox.h"
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

// The random bits of one result of an op in one step: element i takes word i % 4 of block i / 4, as random ops do.
// Streams of roundings are those with the highest bit set; random ops have the others.
class RoundingBits {
 public:
  RoundingBits(StepContext step, std::uint64_t stream, Draws draws, std::int64_t numel)
      : first_(draws == Draws::kPerShard ? static_cast<std::int64_t>(step.replica) * numel : 0),
        stream_((step.replica = draws == Draws::kPerReplica ? step.replica : 0, step),
                static_cast<std::int64_t>(0x80000000u | stream * 0x9E3779B97F4A7C15u >> 33)) {}

  std::uint32_t operator()(std::int64_t i) {
    std::int64_t at = first_ + i;
    if (at / 4 != number_) block_ = stream_.block(number_ = at / 4);
    return block_[static_cast<std::size_t>(at % 4)];
  }

 private:
  std::int64_t first_;
  RandomStream stream_;
  std::int64_t number_ = -1;
  PhiloxBlock block_{};
};

constexpr std::int64_t kPiece = 16 << 10;  // elements that one thread converts at a time

// Calls work(begin, end) for pieces of n elements, on the threads of the device.
template <class F>
void for_each_piece(const StepContext& step, std::int64_t n, F&& work) {
  std::int64_t pieces = (n + kPiece - 1) / kPiece;
  auto piece = [&](std::int64_t i) { work(i * kPiece, std::min(n, (i + 1) * kPiece)); };
  if (step.team != nullptr && pieces > 1) {
    step.team->run(pieces, piece);
  } else {
    for (std::int64_t i = 0; i < pieces; ++i) piece(i);
  }
}

class RandomRounding final : public FloatConversion {
 public:
  explicit RandomRounding(const Rounding& rounding)
      : stream_(static_cast<std::uint64_t>(rounding.stream)), draws_(rounding.draws) {}

  bool takes(DType type) const override { return type == DType::kF16; }

  void widen(const KernelArgs& args, DType, const void* from, float* to, std::int64_t n) const override {
    const auto* halves = static_cast<const Half*>(from);
    for_each_piece(*args.step, n, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(halves[i]);
    });
  }

  void round(const KernelArgs& args, std::size_t output, DType, const float* from, void* to,
             std::int64_t n) const override {
    auto* halves = static_cast<Half*>(to);
    for_each_piece(*args.step, n, [&](std::int64_t begin, std::int64_t end) {
      RoundingBits bits(*args.step, stream_ + output, draws_, n);
      for (std::int64_t i = begin; i < end; ++i) halves[i] = round_at_random(from[i], bits(i));
    });
  }

 private:
  std::uint64_t stream_;
  Draws draws_;
};

}  // namespace

Half round_at_random(float x, std::uint32_t bits) {
  float size = std::fabs(x);
  if (!(size <= 65504.0f)) return static_cast<Half>(x);
  std::uint16_t half = 0;
  if (size >= 0x1p-14f) {
    // Half drops 13 bits of the mantissa; a carry of what is added to them rounds up.
    auto rounded = std::bit_cast<float>((std::bit_cast<std::uint32_t>(size) + (bits & 0x1fff)) & ~0x1fffu);
    half = std::bit_cast<std::uint16_t>(static_cast<Half>(std::fmin(rounded, 65504.0f)));
  } else {
    float steps = size * 0x1p24f, below = std::floor(steps);  // subnormal numbers are 2^-24 apart
    half = static_cast<std::uint16_t>(below + (uniform_from_bits(bits) < steps - below ? 1.0f : 0.0f));
  }
  if (std::signbit(x)) half |= 0x8000;
  return std::bit_cast<Half>(half);
}

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
  auto rounding = std::make_shared<const RandomRounding>(request.rounding);
  KernelRequest wide = *widened_request(request, *rounding);
  wide.rounding = {};
  return make_through_float(request, std::move(rounding), backend.create_kernel(wide));
}

}  // namespace aspen
