#include "aspen/runtime/arena_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "aspen/base/device_fault.h"
#include "aspen/runtime/program.h"

namespace aspen {
namespace {

// A step of a small network goes through all of its memory, too: from this size on the rest of a huge page is well
// spent.
constexpr std::size_t kHugePage = std::size_t{2} << 20, kLeastHuge = kHugePage / 4;

using Line = std::array<std::uint64_t, kBufferAlignment / sizeof(std::uint64_t)>;

// Differs from line to line (multiples of the golden ratio), so that no copy from one place to another restores it.
Line pattern_of(std::size_t line) {
  Line pattern;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    pattern[i] = (line * pattern.size() + i + 1) * 0x9E3779B97F4A7C15u;
  }
  return pattern;
}

}  // namespace

ArenaMemory::ArenaMemory(std::size_t bytes, const char* what, Fill fill) : bytes_(bytes) {
  if (bytes == 0) return;
  std::size_t alignment = bytes >= kLeastHuge ? kHugePage : kBufferAlignment;
  std::size_t rounded = (bytes + alignment - 1) / alignment * alignment, room = rounded + alignment;
  memory_.reset(std::calloc(room, 1));
  void* begin = memory_.get();
  if (begin != nullptr) data_ = static_cast<std::byte*>(std::align(alignment, rounded, begin, room));
  if (data_ == nullptr) {
    throw DeviceFault(
        Repair::kDeviceReset,
        "no memory for the {} of the program: {} bytes were asked for. Detach or destroy other models and "
        "try again, or let a device keep less: with smaller batches, recomputation or TensorLocations.",
        what, rounded);
  }
  // Fewer TLB misses in large arenas; a kernel without transparent huge pages simply declines.
  if (alignment == kHugePage) madvise(data_, rounded, MADV_HUGEPAGE);
  if (fill == Fill::kZero) return;
  for (std::size_t line = 0; line < rounded / sizeof(Line); ++line) {
    Line pattern = pattern_of(line);
    std::memcpy(data_ + line * sizeof(Line), pattern.data(), sizeof(Line));
  }
}

std::size_t ArenaMemory::touched_bytes() const {
  std::size_t touched = 0;
  for (std::size_t line = 0; line * sizeof(Line) < bytes_; ++line) {
    Line pattern = pattern_of(line);
    std::size_t length = std::min(sizeof(Line), bytes_ - line * sizeof(Line));
    if (std::memcmp(data_ + line * sizeof(Line), pattern.data(), length) != 0) touched += length;
  }
  return touched;
}

void ArenaMemory::Free::operator()(void* memory) const { std::free(memory); }

}  // namespace aspen
