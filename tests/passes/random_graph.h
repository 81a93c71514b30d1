// Random graphs and models placed at random on several devices. Equal seeds give equal graphs.
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

// As if compiled up to partitioning: forward, backward and update ops over parameters, accumulators and a buffer that
// the forward pass assigns.
std::unique_ptr<Graph> random_graph(std::uint64_t seed);

// A forward pass with a loss: layers with skip connections, shared weights, dropout, running statistics, loops,
// branches and calls. Placed at random, or all on one device.
std::unique_ptr<Graph> random_model(std::uint64_t seed, bool is_placed);

// One that updates all parameters of the model.
void set_random_optimizer(std::uint64_t seed, const Graph& model, CompileOptions& options);

// Options under which any such graph compiles; execution, liveness and places differ from seed to seed.
CompileOptions random_options(std::uint64_t seed);

}  // namespace aspen::testing
