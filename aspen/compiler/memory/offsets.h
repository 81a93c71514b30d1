// Gives each buffer a fixed place in one arena so that buffers alive at the same time never overlap.
// Called by the memory plan, once per task of a program and once per lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace aspen {

// Alive from the instruction `first` to the instruction `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  std::int64_t first = 0, last = 0;
  std::size_t offset = 0;  // result; a multiple of kBufferAlignment
};

std::size_t aligned(std::size_t bytes);  // rounded up to kBufferAlignment

// Returns the size of the arena. Greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural
// Net Inference", 2020): the largest buffer first, each at the lowest offset free during its whole life. Within a
// few percent of the peak on networks. What is taken is kept in a tree over time (see taken_bytes.h), so that the time
// it takes grows like n log^2 n unless the arena is full of gaps too small for anything.
// num_ranges: raised by the number of taken ranges looked at, a measure of the work for tests.
std::size_t assign_offsets(std::vector<Lifetime>& buffers, std::size_t* num_ranges = nullptr);

}  // namespace aspen
