// Matrix products of any rank, shared by the linear algebra, recurrent and einsum handlers.
#pragma once

#include "poptorch/aten/support/expression.h"

namespace poptorch {

// torch.matmul: vectors are taken as rows or columns, leading axes broadcast. Operands have equal types.
Expr matmul(Expr x, Expr y);
// x (..., K) times the transpose of w (N, K), leading axes merged into one product; plus bias (N) if given.
Expr linear(Expr x, Expr w, Value* bias);
// beta * self + alpha * product; a factor 0 ignores what it multiplies, NaN included.
Expr scaled_sum(Expr self, double beta, Expr product, double alpha);

}  // namespace poptorch
