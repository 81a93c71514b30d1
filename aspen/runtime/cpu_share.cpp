#include "aspen/runtime/cpu_share.h"

#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

#include "aspen/base/device_fault.h"
#include "aspen/runtime/cpu_quota.h"

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

UsableCpus usable_cpus(std::size_t num_threads, const std::filesystem::path& root) {
  UsableCpus result{.cpus = all_cpus()};
  if (num_threads == 0) num_threads = num_threads_from_environment();
  if (num_threads == 0) {
    if (auto quota = cpu_quota(root))
      num_threads = std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(*quota)));
  }
  if (num_threads != 0 && num_threads < result.cpus.size()) {
    result.cpus.resize(num_threads);
    result.are_all = false;
  }
  return result;
}

std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, std::size_t num_threads) {
  if (num_threads == 0 || num_threads > cpus.size()) return {};
  std::vector<std::vector<int>> shares(num_threads);
  for (std::size_t i = 0; i < num_threads; ++i) {
    auto begin = cpus.begin() + static_cast<std::ptrdiff_t>(i * cpus.size() / num_threads);
    auto end = cpus.begin() + static_cast<std::ptrdiff_t>((i + 1) * cpus.size() / num_threads);
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
  throw DeviceFault(Repair::kNothing,
                    "a thread cannot be moved to cpu {}: {}. Leave it out, or allow the process to use it.", cpu,
                    std::generic_category().message(error));
}

CpuMask CpuMask::of_this_thread() {
  CpuMask mask;
  mask.is_known_ = sched_getaffinity(0, sizeof mask.set_, &mask.set_) == 0;
  return mask;
}

CpuMask::Scope::Scope(const CpuMask& mask) {
  if (!mask.is_known_ || sched_getaffinity(0, sizeof before_, &before_) != 0 || CPU_EQUAL(&before_, &mask.set_)) return;
  has_changed_ = sched_setaffinity(0, sizeof mask.set_, &mask.set_) == 0;
}

CpuMask::Scope::~Scope() {
  if (has_changed_) sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace aspen
