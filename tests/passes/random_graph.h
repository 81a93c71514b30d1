// Random training graphs placed at random on several devices: forward, backward and update ops over parameters,
// accumulators and a buffer that the forward pass assigns. Equal seeds give equal graphs.
#pragma once

#include <memory>
#include <random>

#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/graph.h"

namespace aspen::testing {

class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : engine_(seed) {}
  // In [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool coin() { return between(0, 1) == 1; }

 private:
  std::mt19937_64 engine_;
};

std::unique_ptr<Graph> random_graph(std::uint64_t seed);

// Options under which any such graph compiles; execution, liveness and places differ from seed to seed.
CompileOptions random_options(std::uint64_t seed);

}  // namespace aspen::testing
