// Products with b stored n x k, which is turned once, into panels that all blocks of the result read, or, with few
// rows, a panel at a time; or else a single one with a stored k x m, which is turned once. Called by the kernels of
// dot.
#pragma once

#include <memory>

#include "aspen/backends/cpu/gradient_pieces.h"
#include "aspen/ops/dot/dot_shape.cpu.h"

namespace aspen {

bool is_turned_by_panels(const DotShape& shape);
std::unique_ptr<Kernel> make_turned_dot(const DotShape& shape);

// Of a single product with a alone transposed: the bits of the product that turns a, or of gemm_rows on a as it lies.
std::unique_ptr<GradientPieces> make_pieces_of_dot(const DotShape& shape, bool turns);

}  // namespace aspen
