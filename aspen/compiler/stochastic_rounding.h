// Half results rounded at random, by kernels of round_at_random (aspen/ops/random). bfloat16 is rounded to the nearest,
// as is everything but half.
//
// The numbers drawn follow from seed, step, replica and what an op computes, never from where: whatever devices a model
// is placed on, and if a backward pass computes a value again, results are the same. Updates draw the same numbers on
// all replicas, which therefore go on sharing their weights.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Whether an op computes half results, rather than to move them.
bool rounds_to_half(const Op& op);

// How the ops of a graph that round results to half draw their random numbers.
class RandomRoundings {
 public:
  explicit RandomRoundings(const Graph& graph);
  Rounding operator[](const Op& op) const;  // without a stream: nothing is rounded

 private:
  std::unordered_map<const Op*, Rounding> roundings_;
};

// A kernel that computes what is asked for in float32 and rounds the half among its results at random.
std::unique_ptr<Kernel> make_randomly_rounded(const KernelRequest& request, const Backend& backend);

}  // namespace aspen
