#include "aspen/runtime/replica_reduction.h"

#include <algorithm>
#include <array>

namespace aspen {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;  // of one replica

void cut(std::vector<Reduction>& pieces, const ProgramVariable& variable, const std::vector<std::byte*>& members) {
  // Whole cache lines, so that no two threads write to the same one.
  auto piece = static_cast<std::int64_t>(kPieceBytes / size_of(variable.type.dtype));
  std::int64_t numel = variable.type.numel();
  for (std::int64_t first = 0; first < numel; first += piece) {
    pieces.push_back(
        {.dtype = variable.type.dtype, .first = first, .last = std::min(numel, first + piece), .members = members});
  }
}

}  // namespace

std::vector<Reduction> plan_reductions(const Program& program, const std::vector<ReplicaMemory>& memories) {
  std::vector<Reduction> pieces;
  for (const ProgramVariable& variable : program.variables) {
    if (!variable.reduced) continue;
    for (std::size_t group = 0; group < variable.grouping.num_groups(program.replicas); ++group) {
      std::vector<std::byte*> members;
      for (std::size_t replica : variable.grouping.members(group, program.replicas)) {
        members.push_back(memories[replica].address(variable.places.front()).base);
      }
      if (members.size() > 1) cut(pieces, variable, members);
    }
  }
  return pieces;
}

void run(const Reduction& reduction) {
  dispatch_stored(reduction.dtype, [&](auto tag) {
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
