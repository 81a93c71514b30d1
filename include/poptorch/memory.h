// What a compiled model takes of each device's memory.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace poptorch {

struct MemoryBuffer {
  std::string kind;       // one of those of MemoryFootprint::kinds
  std::size_t bytes = 0;  // of a stash: of all micro-batches that may be under way
  std::string name;       // of a parameter or buffer, or the op that makes it, its module and line
  std::string type;       // "f32[8, 16]"
  bool always_live = false;
};

// Of one device of one replica.
struct MemoryFootprint {
  // Bytes of "weights", "optimiser state", "gradient accumulators", "buffers", "constants", "stashes", and at the peak
  // of the device's memory of "activations at the peak" and "scratch at the peak".
  std::vector<std::pair<std::string, std::size_t>> kinds;
  std::size_t total = 0, always_live = 0;
  std::size_t off_device = 0;         // kept on its behalf
  std::size_t budget = 0;             // of options.setMemoryBudget; 0: no limit
  std::vector<MemoryBuffer> buffers;  // at the peak, largest first
};

}  // namespace poptorch
