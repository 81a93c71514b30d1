#include "allocation_watch.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> largest{0};

}  // namespace

void* operator new(std::size_t size) {
  if (size > largest.load(std::memory_order_relaxed)) largest.store(size, std::memory_order_relaxed);
  if (void* piece = std::malloc(size == 0 ? 1 : size)) return piece;
  throw std::bad_alloc();
}
// The address sanitizer has one of its own, which does not come here.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* piece) noexcept { std::free(piece); }
void operator delete(void* piece, std::size_t) noexcept { std::free(piece); }

namespace aspen::testing {

void forget_largest_allocation() { largest = 0; }
std::size_t largest_allocation() { return largest; }

}  // namespace aspen::testing
