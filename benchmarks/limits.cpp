// What the machine can do at most, for the other benchmarks to compare with: multiply-adds of float32 in registers, and
// bytes moved with working sets from the first cache to memory. `./dev bench limits [threads]` prints them as JSON.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <numeric>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kChains = 12;           // of multiply-adds, independent of each other: more than latency times throughput
constexpr int kMostWindows = 100;     // the best of them counts
constexpr int kFewestWindows = 7;     // where the work takes long
constexpr double kWindow = 0.001;     // seconds; shorter than the turns that a scheduler gives
constexpr double kAllWindows = 0.15;  // seconds

// The widest instructions of this machine: CMakeLists.txt compiles this file for it alone.
#if defined(__AVX512F__)
constexpr const char* kInstructionSet = "avx512";
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr const char* kInstructionSet = "avx2";
constexpr int kLanes = 8;
#else
constexpr const char* kInstructionSet = "baseline";
constexpr int kLanes = 4;
#endif
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));

float multiply_add(std::int64_t rounds) {
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

// Sums what lies at `data`: the fastest way of reading it all.
float read(const float* data, std::int64_t count) {
  Vector sums[4] = {};
  for (std::int64_t i = 0; i + 4 * kLanes <= count; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      Vector part;
      std::memcpy(&part, data + i + j * kLanes, sizeof part);
      sums[j] += part;
    }
  }
  Vector sum = sums[0] + sums[1] + sums[2] + sums[3];
  return sum[0];
}

volatile float sink;  // results go here, so that they are wanted

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// How often `work` is done in a second by `threads` threads together, each with its own number.
double best_rate(int threads, const std::function<void(int thread)>& work) {
  work(0);
  auto start = Clock::now();
  work(0);
  double seconds = std::max(seconds_since(start), 1e-9);
  auto repeats = static_cast<std::int64_t>(kWindow / seconds) + 1;
  double in_time = kAllWindows / (seconds * static_cast<double>(repeats));
  int windows = std::clamp(static_cast<int>(in_time), kFewestWindows, kMostWindows);
  std::barrier together(threads);
  std::vector<double> best(static_cast<std::size_t>(threads), 0.0);
  auto run = [&](int thread) {
    work(thread);
    for (int window = 0; window < windows; ++window) {
      together.arrive_and_wait();
      auto begin = Clock::now();
      for (std::int64_t i = 0; i < repeats; ++i) work(thread);
      double rate = static_cast<double>(repeats) / seconds_since(begin);
      best[static_cast<std::size_t>(thread)] = std::max(best[static_cast<std::size_t>(thread)], rate);
    }
  };
  std::vector<std::jthread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
  others.clear();
  return std::reduce(best.begin(), best.end());
}

double flops(int threads) {
  constexpr std::int64_t kRounds = 10'000;
  double rate = best_rate(threads, [&](int) { sink = multiply_add(kRounds); });
  return rate * kRounds * kChains * kLanes * 2;
}

// Bytes in a second of reading or of copying, whichever moves more, where `bytes` are touched again and again.
double bandwidth(int threads, std::int64_t bytes) {
  std::int64_t floats = bytes / threads / 4;
  std::vector<std::vector<float>> data(static_cast<std::size_t>(threads),
                                       std::vector<float>(static_cast<std::size_t>(floats), 1.0f));
  double reading =
      best_rate(threads, [&](int thread) { sink = read(data[static_cast<std::size_t>(thread)].data(), floats); });
  double copying = best_rate(threads, [&](int thread) {
    float* begin = data[static_cast<std::size_t>(thread)].data();
    std::memcpy(begin, begin + floats / 2, static_cast<std::size_t>(floats / 2) * 4);
  });
  return std::max(reading, copying) * static_cast<double>(floats) * 4;
}

}  // namespace

int main(int argc, char** argv) {
  int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1) {
    std::cerr << "[limits] \"" << argv[1] << "\" is no number of threads; expected 1 or more, such as: limits 2\n";
    return 2;
  }
  std::cout << "{\"threads\": " << threads << ", \"instruction_set\": \"" << kInstructionSet
            << "\", \"flops\": " << flops(threads) << ", \"bandwidth\": [";
  for (std::int64_t bytes = 32 << 10; bytes <= 512 << 20; bytes *= 4) {
    if (bytes > 32 << 10) std::cout << ", ";
    std::cout << "{\"bytes\": " << bytes << ", \"rate\": " << bandwidth(threads, bytes) << "}";
  }
  std::cout << "]}\n";
}
