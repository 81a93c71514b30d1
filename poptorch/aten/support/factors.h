// Matrices, their factors, and what is solved with them; shared by the linear algebra handlers. Matrices lie in the
// last two axes.
#pragma once

#include "aspen/ops/linalg/linalg.h"
#include "poptorch/aten/support/expression.h"
#include "poptorch/aten/support/matrix.h"

namespace poptorch {

std::int64_t rows(Expr matrix);
std::int64_t columns(Expr matrix);
Expr transposed(Expr matrix);
Expr triangle(Expr x, bool upper, bool strict = false);  // zeros elsewhere; `strict`: on the diagonal, too
Expr identity(Builder& b, DType dtype, std::int64_t rows, std::int64_t columns);
Expr diagonal(Expr matrix);                        // (batch..., min(rows, columns))
Expr first_rows(Expr matrix, std::int64_t count);  // and first_columns
Expr first_columns(Expr matrix, std::int64_t count);
Shape batch_of(const Shape& shape);                // without the last two axes
Expr with_batch(Expr matrix, const Shape& batch);  // broadcast to it
Shape common_batch(Expr x, Expr y, const char* who);

// An argument as matrices in float32 or float64; integers are not for these ops.
Expr matrix_argument(Call& call, const char* argument);
void require_square(Call& call, Expr matrix);

// The value, with the gradient of `path`: an expression that is linear in the operands and has their derivative. It is
// asked for only where there is a gradient.
template <class F>
Expr grafted(Call& call, Expr value, const F& path) {
  return call.training() ? Expr{value.b, value.b->make("graft", {value.v, path().v})} : value;
}

Expr triangular_solve(Expr a, Expr b, aspen::TriangularSolveAttrs attrs);

struct Lu {
  Expr packed, pivots, info;
};
Lu lu_of(Expr a);
Expr row_order(Expr pivots, std::int64_t rows);  // i32 (batch..., rows)
Expr permuted(Expr x, Expr order);               // row i is row order[i] of x
Expr permuted_back(Expr x, Expr order);          // row order[i] is row i of x
Expr lu_solved(Expr packed, Expr order, Expr right, bool adjoint = false);

// An error of the call, in torch's words for `api` ("linalg.inv"), when the program meets an info that is not 0.
void check_factored(Call& call, Expr info, const std::string& api);

}  // namespace poptorch
