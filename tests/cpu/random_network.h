// Random networks for images with a loss: convolutions of all kinds, norms, poolings, activations, shortcuts, dropout.
// Equal seeds give equal networks.
#pragma once

#include <cstdint>
#include <memory>

#include "aspen/compiler/ir/graph.h"

namespace aspen::testing {

std::unique_ptr<Graph> random_network(std::uint64_t seed);

}  // namespace aspen::testing
