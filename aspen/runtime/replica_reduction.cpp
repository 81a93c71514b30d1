#include "aspen/runtime/replica_reduction.h"

#include <algorithm>
#include <array>

namespace aspen {
namespace {

bool is_reduced_on(const Program& program, const ProgramVariable& variable, std::size_t device) {
  return program.replicas > 1 && variable.reduced && variable.places.front().owner == device;
}

}  // namespace

bool needs_reduction(const Program& program, std::size_t device) {
  return std::any_of(program.variables.begin(), program.variables.end(),
                     [&](const ProgramVariable& variable) { return is_reduced_on(program, variable, device); });
}

std::vector<Reduction> plan_reductions(const Program& program, const std::vector<ReplicaMemory>& memories,
                                       std::size_t replica, std::size_t device) {
  std::vector<Reduction> result;
  for (const ProgramVariable& variable : program.variables) {
    if (!is_reduced_on(program, variable, device)) continue;
    std::vector<std::size_t> members =
        variable.grouping.members(variable.grouping.group_of(replica, program.replicas), program.replicas);
    if (members.size() == 1) continue;
    // Parts of whole cache lines, so that no two replicas write to the same one.
    auto line = static_cast<std::int64_t>(kBufferAlignment / size_of(variable.type.dtype));
    std::int64_t numel = variable.type.numel(), num_members = static_cast<std::int64_t>(members.size());
    std::int64_t part = ((numel + num_members - 1) / num_members + line - 1) / line * line;
    auto own = std::find(members.begin(), members.end(), replica) - members.begin();
    Reduction reduction{
        .dtype = variable.type.dtype, .first = std::min(numel, own * part), .last = std::min(numel, (own + 1) * part)};
    if (reduction.first == reduction.last) continue;
    for (std::size_t member : members) {
      reduction.members.push_back(memories[member].address(variable.places.front()).base);
    }
    result.push_back(std::move(reduction));
  }
  return result;
}

void run(const Reduction& reduction) {
  dispatch(reduction.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr std::int64_t kBlock = 256;
    std::array<Accumulator<T>, kBlock> sum;
    for (std::int64_t first = reduction.first; first < reduction.last; first += kBlock) {
      std::int64_t count = std::min(kBlock, reduction.last - first);
      sum.fill(0);
      for (std::byte* member : reduction.members) {
        const T* from = reinterpret_cast<const T*>(member) + first;
        for (std::int64_t i = 0; i < count; ++i) sum[i] += static_cast<Accumulator<T>>(from[i]);
      }
      for (std::byte* member : reduction.members) {
        T* to = reinterpret_cast<T*>(member) + first;
        for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(sum[i]);
      }
    }
  });
}

}  // namespace aspen
