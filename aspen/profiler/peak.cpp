#include "aspen/profiler/peak.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <numeric>
#include <thread>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__)
#define ASPEN_HAS_TARGETS 1
#else
#define ASPEN_HAS_TARGETS 0
#endif

namespace aspen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kRounds = 4000;  // of multiply-adds: some ten microseconds
constexpr int kChains = 12;             // more than the latency of a multiply-add times how many begin at once

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
  const char* name;
};

#if ASPEN_HAS_TARGETS
[[gnu::target("avx512f")]] float run_avx512(std::int64_t rounds) { return multiply_add<Vector16>(rounds); }
[[gnu::target("avx2,fma")]] float run_avx2(std::int64_t rounds) { return multiply_add<Vector8>(rounds); }
#endif
float run_baseline(std::int64_t rounds) { return multiply_add<Vector4>(rounds); }

Kernel best_kernel() {
#if ASPEN_HAS_TARGETS
  if (__builtin_cpu_supports("avx512f")) return {run_avx512, 16, "avx512"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {run_avx2, 8, "avx2"};
#endif
  return {run_baseline, 4, "baseline"};
}

}  // namespace

double best_rate(std::size_t num_threads, std::chrono::nanoseconds time,
                 const std::function<void(std::size_t thread)>& work) {
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

double peak_flops(std::size_t num_threads, std::chrono::nanoseconds time) {
  static std::atomic<float> sink;  // results go here, so that they are wanted
  const Kernel kernel = best_kernel();
  return best_rate(num_threads, time, [&](std::size_t) { sink = kernel.run(kRounds); }) * kRounds * kChains *
         kernel.lanes * 2;
}

const char* widest_instructions() { return best_kernel().name; }

}  // namespace aspen
