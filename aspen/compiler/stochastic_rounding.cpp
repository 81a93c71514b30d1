#include "aspen/compiler/stochastic_rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "aspen/compiler/evaluate.h"
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

bool is_update(const Op& op) { return op.is("sgd") || op.is("adam") || op.is("rmsprop") || op.is("lamb"); }

// Hands a value on as it is, to another task, replica or place.
bool is_transfer(const Op& op) {
  return op.is("send") || op.is("store") || op.is("load") || op.is("replica_slice") || op.def().is_alias();
}

bool rounds_to_half(const Op& op) {
  if (op.num_inputs() == 0 || only_moves(op) || is_transfer(op) || op.def().is_impure()) return false;
  std::vector<Value*> outputs = op.outputs();
  return std::any_of(outputs.begin(), outputs.end(), [](const Value* y) { return y->dtype() == DType::kF16; });
}

// -- the kernel -----------------------------------------------------------------------------------------------------
enum class Draws : std::uint8_t {
  kPerReplica,
  kShared,    // by all replicas
  kPerShard,  // the same as for the whole tensor, of which each replica has a shard
};

Draws draws_of(const Op& op) {
  if (op.section != Section::kUpdate) return Draws::kPerReplica;
  const Op* before = op.input(0)->producer();
  return before != nullptr && before->is("replica_slice") ? Draws::kPerShard : Draws::kShared;
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

constexpr std::size_t kAlignment = 64;
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

// An input or output as the float kernel sees it.
struct Port {
  std::int64_t numel = 0;
  bool is_half = false;
  std::size_t offset = 0;  // of its floats in the workspace

  float* floats(const KernelArgs& args) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(args.workspace) + offset);
  }
};

class RandomlyRoundedKernel final : public Kernel {
 public:
  RandomlyRoundedKernel(const KernelRequest& request, std::int64_t stream, Draws draws, std::unique_ptr<Kernel> kernel)
      : kernel_(std::move(kernel)), stream_(static_cast<std::uint64_t>(stream)), draws_(draws) {
    for (const KernelInput& input : request.inputs) inputs_.push_back(make_port(input.type, input.present));
    for (const TensorType& output : request.outputs) outputs_.push_back(make_port(output, true));
    pointers_ = converted_bytes_;
    converted_bytes_ += aligned((inputs_.size() + outputs_.size()) * sizeof(void*));
  }

  std::size_t workspace_bytes() const override { return converted_bytes_ + kernel_->workspace_bytes(); }
  void reserve(std::size_t num_threads) const override { kernel_->reserve(num_threads); }

  void run(const KernelArgs& args) const override {
    auto* own = static_cast<std::byte*>(args.workspace) + pointers_;
    std::span<const void*> inputs(reinterpret_cast<const void**>(own), inputs_.size());
    std::span<void*> outputs(reinterpret_cast<void**>(own) + inputs_.size(), outputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs[i] = widen(args, i);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      outputs[i] = outputs_[i].is_half ? outputs_[i].floats(args) : args.outputs[i];
    }
    kernel_->run({.inputs = inputs,
                  .outputs = outputs,
                  .workspace = static_cast<std::byte*>(args.workspace) + converted_bytes_,
                  .step = args.step});
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].is_half) round(args, i);
    }
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  Port make_port(const TensorType& type, bool present) {
    Port port{.numel = type.numel(), .is_half = present && type.dtype == DType::kF16, .offset = converted_bytes_};
    if (port.is_half) converted_bytes_ += aligned(static_cast<std::size_t>(port.numel) * sizeof(float));
    return port;
  }

  const void* widen(const KernelArgs& args, std::size_t i) const {
    const Port& port = inputs_[i];
    if (!port.is_half) return args.inputs[i];
    const auto* from = static_cast<const Half*>(args.inputs[i]);
    float* to = port.floats(args);
    for_each_piece(*args.step, port.numel, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j) to[j] = static_cast<float>(from[j]);
    });
    return to;
  }

  void round(const KernelArgs& args, std::size_t i) const {
    const Port& port = outputs_[i];
    const float* from = port.floats(args);
    auto* to = static_cast<Half*>(args.outputs[i]);
    for_each_piece(*args.step, port.numel, [&](std::int64_t begin, std::int64_t end) {
      RoundingBits bits(*args.step, stream_ + i, draws_, port.numel);
      for (std::int64_t j = begin; j < end; ++j) to[j] = round_at_random(from[j], bits(j));
    });
  }

  std::unique_ptr<Kernel> kernel_;
  std::uint64_t stream_;
  Draws draws_;
  std::vector<Port> inputs_, outputs_;
  std::size_t pointers_ = 0;  // the float kernel's table of arguments, in the workspace: nothing is allocated
  std::size_t converted_bytes_ = 0;
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

RoundingStreams::RoundingStreams(const Graph& graph) {
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
    if (rounds_to_half(*op)) streams_.emplace(op.get(), static_cast<std::int64_t>(hash >> 1 | 1));
  }
}

std::int64_t RoundingStreams::operator[](const Op& op) const {
  auto found = streams_.find(&op);
  return found == streams_.end() ? 0 : found->second;
}

std::unique_ptr<Kernel> make_randomly_rounded(const Op& op, std::int64_t stream, const Backend& backend) {
  KernelRequest request = kernel_request(op), wide = request;
  for (KernelInput& input : wide.inputs) {
    if (input.present && input.type.dtype == DType::kF16) input.type.dtype = DType::kF32;
  }
  for (TensorType& output : wide.outputs) {
    if (output.dtype == DType::kF16) output.dtype = DType::kF32;
  }
  return std::make_unique<RandomlyRoundedKernel>(request, stream, draws_of(op), backend.create_kernel(wide));
}

}  // namespace aspen
