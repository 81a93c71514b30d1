#include "aspen/compiler/memory/offsets.h"

#include <algorithm>
#include <numeric>

#include "aspen/compiler/memory/taken_bytes.h"
#include "aspen/runtime/program.h"

namespace aspen {

std::size_t aligned(std::size_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

std::size_t assign_offsets(std::vector<Lifetime>& buffers, std::size_t* num_ranges) {
  std::vector<std::size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  if (buffers.empty()) return 0;
  std::int64_t begin = buffers.front().first, end = buffers.front().last;
  for (const Lifetime& buffer : buffers) {
    begin = std::min(begin, buffer.first);
    end = std::max(end, buffer.last);
  }
  TakenBytes taken(static_cast<std::size_t>(end - begin + 1));
  std::size_t arena = 0;
  for (std::size_t index : by_size) {
    Lifetime& buffer = buffers[index];
    std::size_t need = aligned(buffer.bytes);
    if (need == 0) continue;
    auto first = static_cast<std::size_t>(buffer.first - begin), last = static_cast<std::size_t>(buffer.last - begin);
    buffer.offset = taken.find_room(first, last, need);
    taken.take(first, last, buffer.offset, buffer.offset + need);
    arena = std::max(arena, buffer.offset + need);
  }
  if (num_ranges != nullptr) *num_ranges += taken.num_ranges_seen();
  return arena;
}

}  // namespace aspen
