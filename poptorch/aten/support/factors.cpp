#include "poptorch/aten/support/factors.h"

namespace poptorch {

std::int64_t rows(Expr matrix) { return matrix.size(matrix.rank() - 2); }
std::int64_t columns(Expr matrix) { return matrix.size(matrix.rank() - 1); }

Expr transposed(Expr matrix) {
  return {matrix.b, build::swap_axes(*matrix.b, matrix.v, matrix.rank() - 2, matrix.rank() - 1)};
}

namespace {

Expr row_number(Builder& b, std::int64_t count) { return reshape(iota(b, DType::kI32, count), {count, 1}); }
Expr column_number(Builder& b, std::int64_t count) { return reshape(iota(b, DType::kI32, count), {1, count}); }

}  // namespace

Expr triangle(Expr x, bool upper, bool strict) {
  Expr row = row_number(*x.b, rows(x)), column = column_number(*x.b, columns(x));
  Expr low = upper ? row : column, high = upper ? column : row;
  return where(strict ? high > low : high >= low, x, 0.0);
}

Expr identity(Builder& b, DType dtype, std::int64_t rows, std::int64_t columns) {
  return cast(row_number(b, rows) == column_number(b, columns), dtype);
}

Expr diagonal(Expr matrix) {
  std::int64_t m = rows(matrix), n = columns(matrix), k = std::min(m, n);
  Shape flat = batch_of(matrix.shape());
  const std::int64_t axis = static_cast<std::int64_t>(flat.size());
  flat.push_back(m * n);
  return slice(reshape(matrix, flat), axis, 0, (k - 1) * (n + 1) + 1, n + 1);
}

Expr first_rows(Expr matrix, std::int64_t count) { return slice(matrix, matrix.rank() - 2, 0, count); }
Expr first_columns(Expr matrix, std::int64_t count) { return slice(matrix, matrix.rank() - 1, 0, count); }

Shape batch_of(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }

Expr with_batch(Expr matrix, const Shape& batch) {
  Shape shape = batch;
  shape.push_back(rows(matrix));
  shape.push_back(columns(matrix));
  return broadcast(matrix, shape);
}

Shape common_batch(Expr x, Expr y, const char* who) {
  return aspen::broadcast_shapes(batch_of(x.shape()), batch_of(y.shape()), who);
}

Expr matrix_argument(Call& call, const char* argument) {
  if (!is_float(call.dtype(argument))) decline("matrices of integers");
  Expr x = in_float(expr(call, call.value(argument)));
  if (x.rank() < 2) {
    throw UserError("[{}] {} has shape {}; expected matrices, of rank 2 and more.", call.name(), argument,
                    to_string(x.shape()));
  }
  return x;
}

void require_square(Call& call, Expr matrix) {
  if (rows(matrix) == columns(matrix)) return;
  throw UserError("[{}] takes square matrices, not {}.", call.name(), to_string(matrix.shape()));
}

Expr triangular_solve(Expr a, Expr b, aspen::TriangularSolveAttrs attrs) {
  return {a.b, a.b->make("triangular_solve", {a.v, b.v}, attrs)};
}

Lu lu_of(Expr a) {
  aspen::Op* node = a.b->emit("lu", {a.v}, {});
  return {expr(*a.b, node->output(0)), expr(*a.b, node->output(1)), expr(*a.b, node->output(2))};
}

Expr row_order(Expr pivots, std::int64_t rows) {
  return {pivots.b, pivots.b->make("pivot_order", {pivots.v}, aspen::PivotOrderAttrs{rows})};
}

namespace {

Expr along_rows(Expr order, Expr x) { return broadcast(unsqueeze(order, order.rank()), x.shape()); }

}  // namespace

Expr permuted(Expr x, Expr order) { return gather(x, along_rows(order, x), x.rank() - 2); }
Expr permuted_back(Expr x, Expr order) {
  return scatter(full_like(x, 0), along_rows(order, x), x, x.rank() - 2, "set");
}

// P a = l u: a x = b by l y = P b, u x = y; a^T x = b by u^T y = b, l^T P x = y.
Expr lu_solved(Expr packed, Expr order, Expr right, bool adjoint) {
  if (adjoint) {
    Expr y = triangular_solve(packed, right, {.upper = true, .transpose = true});
    return permuted_back(triangular_solve(packed, y, {.transpose = true, .unit = true}), order);
  }
  Expr y = triangular_solve(packed, permuted(right, order), {.unit = true});
  return triangular_solve(packed, y, {.upper = true});
}

void check_factored(Call& call, Expr info, const std::string& api) {
  auto concerns = [&](const char* what) { return api.find(what) != std::string::npos; };
  const char* problem = "The factorization could not be completed: the diagonal element {} of U is zero.";
  if (concerns("cholesky")) {
    problem =
        "The factorization could not be completed because the input is not positive-definite (the leading minor of "
        "order {} is not positive-definite).";
  } else if (concerns("inv")) {
    problem =
        "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular.";
  } else if (concerns("solve")) {
    problem = "The solver failed because the input matrix is singular.";
  }
  call.b.emit("check_factored", {info.v}, aspen::CheckFactoredAttrs{call.name(), api, problem});
}

}  // namespace poptorch
