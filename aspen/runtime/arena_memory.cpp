#include "aspen/runtime/arena_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "aspen/base/error.h"
#include "aspen/runtime/program.h"

namespace aspen {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

ArenaMemory::ArenaMemory(std::size_t bytes, const char* what) : bytes_(bytes) {
  if (bytes == 0) return;
  std::size_t alignment = bytes >= kHugePage ? kHugePage : kBufferAlignment;
  std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  if (!data_) throw DeviceError("no memory for the {} of the program: {} bytes were asked for.", what, rounded);
  // Fewer TLB misses in large arenas; a kernel without transparent huge pages simply declines.
  if (alignment == kHugePage) madvise(data_.get(), rounded, MADV_HUGEPAGE);
  std::memset(data_.get(), 0, rounded);
}

void ArenaMemory::Free::operator()(std::byte* data) const { std::free(data); }

}  // namespace aspen
