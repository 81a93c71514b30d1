// Products with b stored n x k, or else a single one with a stored k x m: it is turned once, and all blocks of the
// result read it in the order in which it then lies. Called by the kernels of dot.
#pragma once

#include <memory>

#include "aspen/ops/dot/dot_shape.cpu.h"

namespace aspen {

std::unique_ptr<Kernel> make_turned_dot(const DotShape& shape);

}  // namespace aspen
