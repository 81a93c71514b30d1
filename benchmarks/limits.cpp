// What the machine can do at most, for the other benchmarks to compare with: multiply-adds of float32 in registers, and
// bytes moved with working sets from the first cache to memory. `./dev bench limits [threads]` prints them as JSON.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <vector>

#include "aspen/profiler/peak.h"

namespace {

using std::chrono::milliseconds;
constexpr std::int64_t kLeastBytes = 4 << 20;  // that one piece of work moves: more than a few microseconds
constexpr std::int64_t kManyBytes = 64 << 20;  // moving more takes long, and the best of a few wants more time

// The widest registers of this machine: CMakeLists.txt compiles this file for it alone.
#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));

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

// Bytes in a second of reading or of copying, whichever moves more, where `bytes` are touched again and again.
double bandwidth(std::size_t threads, std::int64_t bytes) {
  const std::int64_t floats = bytes / static_cast<std::int64_t>(threads) / 4;
  const std::int64_t repeats = std::max<std::int64_t>(kLeastBytes / bytes, 1);
  const auto time = bytes > kManyBytes ? milliseconds{400} : milliseconds{150};
  std::vector<std::vector<float>> data(threads, std::vector<float>(static_cast<std::size_t>(floats), 1.0f));
  const double reading = aspen::best_rate(threads, time, [&](std::size_t thread) {
    for (std::int64_t i = 0; i < repeats; ++i) {
      asm volatile("" ::: "memory");  // what was read is read again
      sink = read(data[thread].data(), floats);
    }
  });
  const double copying = aspen::best_rate(threads, time, [&](std::size_t thread) {
    float* begin = data[thread].data();
    for (std::int64_t i = 0; i < repeats; ++i) {
      std::memcpy(begin, begin + floats / 2, static_cast<std::size_t>(floats / 2) * 4);
      sink = begin[floats / 4];
    }
  });
  return std::max(reading, copying) * static_cast<double>(repeats * floats) * 4;
}

}  // namespace

int main(int argc, char** argv) {
  const int given = argc > 1 ? std::atoi(argv[1]) : 1;
  if (given < 1) {
    std::cerr << "[limits] \"" << argv[1] << "\" is no number of threads; expected 1 or more, such as: limits 2\n";
    return 2;
  }
  const auto threads = static_cast<std::size_t>(given);
  std::cout << "{\"threads\": " << threads << ", \"instruction_set\": \"" << aspen::widest_instructions()
            << "\", \"flops\": " << aspen::peak_flops(threads, milliseconds{150}) << ", \"bandwidth\": [";
  for (std::int64_t bytes = 32 << 10; bytes <= 512 << 20; bytes *= 4) {
    if (bytes > 32 << 10) std::cout << ", ";
    std::cout << "{\"bytes\": " << bytes << ", \"rate\": " << bandwidth(threads, bytes) << "}";
  }
  std::cout << "]}\n";
}
