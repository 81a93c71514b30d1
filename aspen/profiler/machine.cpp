#include "aspen/profiler/machine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "aspen/profiler/peak.h"
#include "aspen/runtime/cpu_share.h"

namespace aspen {
namespace {

constexpr std::size_t kMostBytes = 64 << 20, kAllBytes = 256 << 20;  // of a thread, more than its caches; of all
constexpr auto kTimeForFlops = std::chrono::milliseconds{4};         // the best of what is measured in it counts
constexpr auto kTimeForBytes = std::chrono::milliseconds{12};

profile::Peak peak(std::size_t num_threads) {
  static std::atomic<char> sink;  // what was copied is wanted
  std::vector<std::vector<char>> memory(num_threads, std::vector<char>(std::min(kMostBytes, kAllBytes / num_threads)));
  const std::size_t half = memory[0].size() / 2;
  const double copied = best_rate(num_threads, kTimeForBytes, [&](std::size_t thread) {
    std::memcpy(memory[thread].data(), memory[thread].data() + half, half);
    sink = memory[thread][half / 2];
  });
  return {.flops_per_second = peak_flops(num_threads, kTimeForFlops),
          .bytes_per_second = copied * 2 * static_cast<double>(half)};
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

profile::Machine measured() {
  const std::size_t num_cpus = usable_cpus(0).cpus.size();
  profile::Machine machine{.processor = processor_name(), .num_cpus = static_cast<std::int64_t>(num_cpus)};
  machine.thread = peak(1);
  machine.all = num_cpus == 1 ? machine.thread : peak(num_cpus);
  return machine;
}

}  // namespace

profile::Machine describe_machine() {
  static const profile::Machine machine = measured();
  return machine;
}

}  // namespace aspen
