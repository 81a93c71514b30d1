#include "tests/cpu/allocation_count.h"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <dnnl.hpp>

namespace {

std::atomic<long> count{0};
thread_local int depth_in_onednn = 0;

[[maybe_unused]] void note() {
  if (depth_in_onednn == 0) count.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// Takes the place of oneDNN's own, for the whole binary.
extern "C" dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
                                                int num_arguments, const dnnl_exec_arg_t* arguments) {
  using Execute = dnnl_status_t (*)(const_dnnl_primitive_t, dnnl_stream_t, int, const dnnl_exec_arg_t*);
  static const auto execute = reinterpret_cast<Execute>(dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  ++depth_in_onednn;
  dnnl_status_t status = execute(primitive, stream, num_arguments, arguments);
  --depth_in_onednn;
  return status;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

bool aspen::testing::counts_allocations() { return false; }

#else

bool aspen::testing::counts_allocations() { return true; }

// The functions of the C library under these names pass on to the ones it offers for this purpose.
extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  note();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t number, std::size_t bytes) {
  note();
  return __libc_calloc(number, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  note();
  return __libc_realloc(old, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) {
  note();
  *result = __libc_memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}

}  // extern "C"

#endif

long aspen::testing::num_allocations() { return count.load(); }
