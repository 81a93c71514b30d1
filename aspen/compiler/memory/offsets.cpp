#include "aspen/compiler/memory/offsets.h"

#include <algorithm>
#include <numeric>

#include "aspen/runtime/program.h"

namespace aspen {

std::size_t aligned(std::size_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

std::size_t assign_offsets(std::vector<Lifetime>& buffers) {
  std::vector<std::size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  std::vector<const Lifetime*> placed;  // by offset
  std::size_t arena = 0;
  for (std::size_t index : by_size) {
    Lifetime& buffer = buffers[index];
    std::size_t offset = 0, need = aligned(buffer.bytes);
    if (need == 0) continue;
    for (const Lifetime* other : placed) {
      if (other->last < buffer.first || buffer.last < other->first) continue;
      if (offset + need <= other->offset) break;
      offset = std::max(offset, other->offset + aligned(other->bytes));
    }
    buffer.offset = offset;
    arena = std::max(arena, offset + need);
    auto place = std::upper_bound(placed.begin(), placed.end(), offset,
                                  [](std::size_t value, const Lifetime* other) { return value < other->offset; });
    placed.insert(place, &buffer);
  }
  return arena;
}

}  // namespace aspen
