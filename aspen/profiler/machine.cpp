#include "aspen/profiler/machine.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "aspen/runtime/cpu_share.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define ASPEN_HAS_TARGETS 1
#else
#define ASPEN_HAS_TARGETS 0
#endif

namespace aspen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kRounds = 4000;                               // of multiply-adds: some ten microseconds
constexpr std::size_t kMostBytes = 64 << 20, kAllBytes = 256 << 20;  // of a thread, more than its caches; of all
constexpr auto kTimeForFlops = std::chrono::milliseconds{4};         // the best of what is measured in it counts
constexpr auto kTimeForBytes = std::chrono::milliseconds{12};

constexpr int kChains = 12;  // more than the latency of a multiply-add times how many begin at once

typedef float Vector4 __attribute__((vector_size(16)));
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector16 __attribute__((vector_size(64)));

// Chains of multiply-adds that do not wait for each other, all in registers. Returns something that depends on them.
template <class Vector>
[[gnu::always_inline]] inline float multiply_add(std::int64_t rounds) {
  Vector chains[kChains], factor = Vector{} + 0.999f, term = Vector{} + 0.002f;
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chains[i] = Vector{} + static_cast<float>(i);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chains[i] = chains[i] * factor + term;
  }
  Vector sum = {};
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum += chains[i];
  return sum[0];
}

struct Kernel {
  float (*run)(std::int64_t rounds);
  int lanes;
};

#if ASPEN_HAS_TARGETS
[[gnu::target("avx512f")]] float run_avx512(std::int64_t rounds) { return multiply_add<Vector16>(rounds); }
[[gnu::target("avx2,fma")]] float run_avx2(std::int64_t rounds) { return multiply_add<Vector8>(rounds); }
#endif
float run_baseline(std::int64_t rounds) { return multiply_add<Vector4>(rounds); }

Kernel best_kernel() {
#if ASPEN_HAS_TARGETS
  if (__builtin_cpu_supports("avx512f")) return {run_avx512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {run_avx2, 8};
#endif
  return {run_baseline, 4};
}

std::atomic<float> sink;  // results go here, so that they are wanted

// How often `work` is done in a second by so many threads together: the best of each.
double best_rate(std::size_t num_threads, Clock::duration time, const std::function<void(std::size_t thread)>& work) {
  std::vector<double> best(num_threads, 0.0);
  std::barrier together(static_cast<std::ptrdiff_t>(num_threads));
  const auto run = [&](std::size_t thread) {
    work(thread);
    together.arrive_and_wait();
    const auto end = Clock::now() + time;
    for (auto begin = Clock::now(); begin < end;) {
      work(thread);
      const auto now = Clock::now();
      best[thread] = std::max(best[thread], 1 / std::chrono::duration<double>(now - begin).count());
      begin = now;
    }
  };
  std::vector<std::thread> others;
  for (std::size_t thread = 1; thread < num_threads; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& thread : others) thread.join();
  return std::accumulate(best.begin(), best.end(), 0.0);
}

profile::Peak peak(std::size_t num_threads) {
  const Kernel kernel = best_kernel();
  const double multiplied = best_rate(num_threads, kTimeForFlops, [&](std::size_t) { sink = kernel.run(kRounds); });
  std::vector<std::vector<char>> memory(num_threads, std::vector<char>(std::min(kMostBytes, kAllBytes / num_threads)));
  const std::size_t half = memory[0].size() / 2;
  const double copied = best_rate(num_threads, kTimeForBytes, [&](std::size_t thread) {
    std::memcpy(memory[thread].data(), memory[thread].data() + half, half);
    sink = static_cast<float>(memory[thread][half / 2]);
  });
  return {.flops_per_second = multiplied * kRounds * kChains * kernel.lanes * 2,
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
