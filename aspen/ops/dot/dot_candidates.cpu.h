// The kernels of dot, for ops that are a product and what follows it: they choose among the same ones, so that they
// have the bits of the ops they stand for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "aspen/backends/api/candidates.h"
#include "aspen/backends/cpu/gradient_pieces.h"

namespace aspen {

std::vector<Candidate> dot_candidates();

// Why no candidate takes the request; "": they do.
std::string unsuited_for_dot(const KernelRequest& request);

// What a candidate computes, a piece at a time; nullptr: it makes all at once.
std::unique_ptr<GradientPieces> dot_in_pieces(const std::string& candidate, const KernelRequest& request);

}  // namespace aspen
