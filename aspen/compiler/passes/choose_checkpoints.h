// Chooses the values from which the backward pass computes again, so that little memory is needed. Asked by `recompute`
// where the compiler may decide (Recompute::kParts).
//
//   ops       o o o o | o o o o | o o o o        parts, each made again when its own gradients are computed
//   kept            x         x                  what a part hands to the ones after it
//
// What is kept and the largest part should be small together: many parts are small, but much is kept between them.
// Borders are put where few bytes cross, parts of equal sizes are tried from one to kMostParts, and the best by that
// sum is taken (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, has the idea with parts of equal
// numbers).
#pragma once

#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

struct CheckpointRequest {
  std::vector<Op*> ops;       // that may run again, of one stage, in the order of the graph
  double micro_batches = 1;   // under way between the stage's forward and backward pass: so often a kept value is there
  bool turns_at_once = true;  // the backward pass follows at once: the last part need not be made again
};

// Adds to `kept` (by value id) what is not made again.
void choose_checkpoints(const CheckpointRequest& request, std::vector<bool>& kept);

}  // namespace aspen
