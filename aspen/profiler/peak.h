// How fast threads of this machine are at best: measured for describe_machine() and for `./dev bench limits`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace aspen {

// How often `work` is done in a second by so many threads at once, each with its own number: the best of what each does
// within the time, added up. Work should take some microseconds, beside which reading the clock is nothing.
double best_rate(std::size_t num_threads, std::chrono::nanoseconds time,
                 const std::function<void(std::size_t thread)>& work);

// FLOP/s of multiply-adds of float32 in registers, with the widest instructions of the processor.
double peak_flops(std::size_t num_threads, std::chrono::nanoseconds time);
const char* widest_instructions();  // "avx512", "avx2" or "baseline"

}  // namespace aspen
