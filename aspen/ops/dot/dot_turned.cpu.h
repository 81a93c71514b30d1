// Products with b stored n x k: it is turned once, into panels that all blocks of the result read; or, with few rows, a
// panel at a time. Called by the kernels of dot.
#pragma once

#include <memory>

#include "aspen/ops/dot/dot_shape.cpu.h"

namespace aspen {

bool is_turned_by_panels(const DotShape& shape);
std::unique_ptr<Kernel> make_turned_dot(const DotShape& shape);

}  // namespace aspen
