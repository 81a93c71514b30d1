#include "aspen/runtime/cpu_share.h"

#include <pthread.h>
#include <sched.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

#include "aspen/base/error.h"

namespace aspen {
namespace {

constexpr const char* kVariable = "ASPEN_NUM_THREADS";

std::size_t num_threads_from_environment() {
  const char* text = std::getenv(kVariable);
  if (text == nullptr) return 0;
  std::size_t value = 0;
  const char* end = text + std::strlen(text);
  auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end || value == 0) {
    throw UserError("{} is \"{}\"; expected a positive number of threads, or nothing for all cpus.", kVariable, text);
  }
  return value;
}

std::vector<int> all_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
    }
    return cpus;
  }
  // More cpus than the set has room for: take them in order.
  for (unsigned cpu = 0; cpu < std::thread::hardware_concurrency(); ++cpu) cpus.push_back(static_cast<int>(cpu));
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

}  // namespace

std::vector<int> usable_cpus(std::size_t num_threads) {
  if (num_threads == 0) num_threads = num_threads_from_environment();
  std::vector<int> cpus = all_cpus();
  if (num_threads != 0 && num_threads < cpus.size()) cpus.resize(num_threads);
  return cpus;
}

std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, std::size_t num_workers) {
  if (num_workers == 0 || num_workers > cpus.size()) return {};
  std::vector<std::vector<int>> shares(num_workers);
  for (std::size_t i = 0; i < num_workers; ++i) {
    auto begin = cpus.begin() + static_cast<std::ptrdiff_t>(i * cpus.size() / num_workers);
    auto end = cpus.begin() + static_cast<std::ptrdiff_t>((i + 1) * cpus.size() / num_workers);
    shares[i].assign(begin, end);
  }
  return shares;
}

void pin(std::thread& thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  int error = pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
  if (error == 0) return;
  throw DeviceError("a thread cannot be moved to cpu {}: {}. Leave it out, or allow the process to use it.", cpu,
                    std::generic_category().message(error));
}

}  // namespace aspen
