// The gradient of an embedding, zeros with rows added to them, a piece at a time: what scatter_rows makes of zeros
// along the first axis, with its bits. Called by the kernels that update tables.
#pragma once

#include <memory>

#include "aspen/backends/cpu/gradient_pieces.h"

namespace aspen {

// The operands are an index in i32 and rows of as many elements as a row of the table, in f32.
std::unique_ptr<GradientPieces> make_row_sums(const Shape& table, const Shape& index);

}  // namespace aspen
