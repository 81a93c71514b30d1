#include "aspen/compiler/kernel_bench.h"

#include <cstring>
#include <utility>

#include "aspen/runtime/cpu_share.h"
#include "aspen/runtime/thread_team.h"

namespace aspen {
namespace {

constexpr std::size_t kMostBytes = std::size_t{512} << 20;  // of operands and workspaces

// Normal numbers in every type of floats; that of f32 is 0.011.
constexpr int kByte = 0x3c;

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

std::unique_ptr<ThreadTeam> make_team(std::size_t num_threads) {
  if (num_threads != 0) return make_thread_team(num_threads, {});
  UsableCpus usable = usable_cpus(0);
  std::size_t count = usable.cpus.size();
  return make_thread_team(count, usable.are_all ? std::move(usable.cpus) : std::vector<int>{});
}

}  // namespace

KernelBench::KernelBench(std::size_t num_threads) : team_(make_team(num_threads)), step_{.team = team_.get()} {}

KernelBench::~KernelBench() = default;

std::size_t KernelBench::num_threads() const { return team_->num_threads(); }

bool KernelBench::take_memory(const KernelRequest& request, std::size_t workspace_bytes, std::size_t packed_bytes) {
  std::size_t operands = 0;
  for (const KernelInput& input : request.inputs) operands += input.present ? aligned(input.type.bytes()) : 0;
  for (const TensorType& output : request.outputs) operands += aligned(output.bytes());
  const std::size_t bytes = operands + aligned(workspace_bytes) + packed_bytes;
  if (bytes > kMostBytes) return false;
  if (bytes > bytes_) {
    memory_ = ArenaMemory();
    memory_ = ArenaMemory(bytes, "trial of kernels");
    std::memset(memory_.data(), kByte, bytes);  // pages that nobody has written share one page
    bytes_ = bytes;
  }
  std::byte* next = memory_.data();
  const auto take = [&](std::size_t size) { return std::exchange(next, next + aligned(size)); };
  inputs_.clear();
  outputs_.clear();
  stays_.clear();
  for (const KernelInput& input : request.inputs) {
    stays_.push_back(input.stays);
    if (!input.present) {
      inputs_.push_back(nullptr);
      continue;
    }
    const std::size_t size = input.type.bytes();
    inputs_.push_back(std::memset(take(size), is_floating(input.type.dtype) ? kByte : 0, size));
  }
  for (const TensorType& output : request.outputs) outputs_.push_back(take(output.bytes()));
  workspace_ = take(workspace_bytes);
  packed_ = next;
  return true;
}

KernelBench::Clock::duration KernelBench::run(const Kernel& kernel, int count) {
  KernelArgs args{.inputs = inputs_, .outputs = outputs_, .workspace = workspace_, .step = &step_};
  if (kernel.packed_bytes() != 0 && stays_.at(kernel.packed_input())) {
    kernel.pack(args, packed_);
    args.packed = packed_;
  }
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) kernel.run(args);
  return (Clock::now() - begin) / count;
}

}  // namespace aspen
