// Solving, inverting and factoring matrices. Gradients of what is solved do not go through the factors: at a solution
// x of a x = b, x + a^-1 (b - a x) is the same x, and its derivative by a and b is that of the solution.
#include <cmath>
#include <limits>
#include <numbers>

#include "poptorch/aten/support/factors.h"

namespace poptorch {
namespace {

void result(Call& call, Expr value, ScalarType type) { call.result(cast(value, graph_dtype(type)).v, type); }
void integer_result(Call& call, Expr value) { call.result(value.v, ScalarType::Int); }

// -- triangles ------------------------------------------------------------------------------------------------------

// x with op(a) x = b, or x op(a) = b; batches broadcast.
Expr solved_triangle(Call& call, Expr a, Expr b, aspen::TriangularSolveAttrs attrs, bool left) {
  require_square(call, a);
  if (!left) {
    b = transposed(b);
    attrs.transpose = !attrs.transpose;
  }
  if (rows(a) != rows(b)) {
    throw UserError("[{}] a matrix {} and a right side {} do not fit.", call.name(), to_string(a.shape()),
                    to_string(b.shape()));
  }
  Shape batch = common_batch(a, b, "triangular_solve");
  Expr x = triangular_solve(with_batch(a, batch), with_batch(b, batch), attrs);
  return left ? x : transposed(x);
}

// linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False)
void linalg_solve_triangular(Call& call) {
  Expr x =
      solved_triangle(call, matrix_argument(call, "self"), matrix_argument(call, "B"),
                      {.upper = call.boolean("upper"), .unit = call.boolean("unitriangular")}, call.boolean("left"));
  result(call, x, call.dtype("self"));
}

// triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)
//   -> (Tensor solution, Tensor cloned_coefficient); self is the right side
void solve_by_triangle(Call& call) {
  Expr a = matrix_argument(call, "A"), b = matrix_argument(call, "self");
  Expr x = solved_triangle(
      call, a, b,
      {.upper = call.boolean("upper"), .transpose = call.boolean("transpose"), .unit = call.boolean("unitriangular")},
      true);
  result(call, x, call.dtype("self"));
  result(call, with_batch(a, common_batch(a, b, "triangular_solve")), call.dtype("A"));
}

// -- Cholesky -------------------------------------------------------------------------------------------------------

struct Cholesky {
  Expr factor, info;
};

// One triangle is read; the gradient is symmetric, as in torch.
Cholesky cholesky_of(Call& call, const char* argument, bool upper) {
  Expr a = matrix_argument(call, argument);
  require_square(call, a);
  if (upper) a = transposed(a);
  a = grafted(call, a, [&] { return (a + transposed(a)) * 0.5; });
  aspen::Op* node = call.b.emit("cholesky", {a.v}, aspen::CholeskyAttrs{});
  Expr l = expr(call, node->output(0));
  return {upper ? transposed(l) : l, expr(call, node->output(1))};
}

// linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)
void linalg_cholesky_ex(Call& call) {
  Cholesky found = cholesky_of(call, "self", call.boolean("upper"));
  if (call.boolean("check_errors")) check_factored(call, found.info, "linalg.cholesky_ex");
  result(call, found.factor, call.dtype("self"));
  integer_result(call, found.info);
}

// cholesky(Tensor self, bool upper=False)
void cholesky(Call& call) {
  Cholesky found = cholesky_of(call, "self", call.boolean("upper"));
  check_factored(call, found.info, "cholesky");
  result(call, found.factor, call.dtype("self"));
}

// l^-T l^-1 b
Expr cholesky_solved(Expr l, Expr b) { return triangular_solve(l, triangular_solve(l, b, {}), {.transpose = true}); }

// cholesky_solve(Tensor self, Tensor input2, bool upper=False): input2 is the factor
void cholesky_solve(Call& call) {
  Expr b = matrix_argument(call, "self"), l = matrix_argument(call, "input2");
  require_square(call, l);
  if (call.boolean("upper")) l = transposed(l);
  Shape batch = common_batch(b, l, "cholesky_solve");
  b = with_batch(b, batch);
  l = with_batch(l, batch);
  Expr factor = detach(l), x = detach(cholesky_solved(factor, b));
  // As in torch the gradient is that of l l^T, whatever lies outside of the triangle.
  x = grafted(call, x, [&] { return cholesky_solved(factor, b - dot(l, dot(l, x, true, false))) + x; });
  result(call, x, call.dtype("self"));
}

// cholesky_inverse(Tensor self, bool upper=False)
void cholesky_inverse(Call& call) {
  Expr l = matrix_argument(call, "self");
  require_square(call, l);
  if (call.boolean("upper")) l = transposed(l);
  Expr one = with_batch(identity(call.b, l.dtype(), rows(l), rows(l)), batch_of(l.shape()));
  Expr inverse = detach(cholesky_solved(detach(l), one));
  inverse = grafted(call, inverse, [&] {
    Expr a = dot(l, l, false, true);
    return -dot(inverse, dot(a, inverse));
  });
  result(call, inverse, call.dtype("self"));
}

// -- LU -------------------------------------------------------------------------------------------------------------

// linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)
void linalg_lu_factor_ex(Call& call) {
  if (!call.boolean("pivot")) decline("LU without pivoting");
  Lu lu = lu_of(matrix_argument(call, "A"));
  if (call.boolean("check_errors")) check_factored(call, lu.info, "linalg.lu_factor_ex");
  result(call, lu.packed, call.dtype("A"));
  integer_result(call, lu.pivots);
  integer_result(call, lu.info);
}

struct Parts {
  Expr permutation, lower, upper;
};

// P with a = P l u, l (M, K) and u (K, N).
Parts unpacked(Expr packed, Expr pivots) {
  std::int64_t m = rows(packed), k = std::min(m, columns(packed));
  Expr one = with_batch(identity(*packed.b, packed.dtype(), m, m), batch_of(packed.shape()));
  Expr lower = triangle(first_columns(packed, k), false, true) + identity(*packed.b, packed.dtype(), m, k);
  return {permuted_back(one, row_order(pivots, m)), lower, triangle(first_rows(packed, k), true)};
}

void parts_result(Call& call, const Parts& parts, ScalarType type) {
  result(call, parts.permutation, type);
  result(call, parts.lower, type);
  result(call, parts.upper, type);
}

// linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)
void linalg_lu(Call& call) {
  if (!call.boolean("pivot")) decline("LU without pivoting");
  Lu lu = lu_of(matrix_argument(call, "A"));
  parts_result(call, unpacked(lu.packed, lu.pivots), call.dtype("A"));
}

// lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)
//   -> (Tensor P, Tensor L, Tensor U)
void lu_unpack(Call& call) {
  if (!call.boolean("unpack_data") || !call.boolean("unpack_pivots")) decline("a part of the factors");
  Expr packed = matrix_argument(call, "LU_data");
  parts_result(call, unpacked(packed, expr(call, call.value("LU_pivots"))), call.dtype("LU_data"));
}

Expr over_batch(Expr order, const Shape& batch) {
  Shape shape = batch;
  shape.push_back(order.shape().back());
  return broadcast(order, shape);
}

// linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False)
void linalg_lu_solve(Call& call) {
  Expr packed = matrix_argument(call, "LU"), right = matrix_argument(call, "B");
  require_square(call, packed);
  bool left = call.boolean("left");
  if (!left) right = transposed(right);
  Shape batch = common_batch(packed, right, "linalg_lu_solve");
  Expr order = over_batch(row_order(expr(call, call.value("pivots")), rows(packed)), batch);
  Expr x = lu_solved(with_batch(packed, batch), order, with_batch(right, batch), call.boolean("adjoint") == left);
  result(call, left ? x : transposed(x), call.dtype("LU"));
}

// Whether b is a vector, or one per matrix: torch's rule.
bool is_vector(Expr a, Expr b) {
  return b.rank() == 1 || (b.rank() == a.rank() - 1 && b.shape() == Shape(a.shape().begin(), a.shape().end() - 1));
}

// _linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)
//   -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)
void linalg_solve_ex(Call& call) {
  Expr a = matrix_argument(call, "A"), b = in_float(expr(call, call.value("B")));
  require_square(call, a);
  bool left = call.boolean("left"), vector = is_vector(a, b);
  Lu lu = lu_of(detach(a));
  if (call.boolean("check_errors")) check_factored(call, lu.info, "linalg.solve_ex");
  if (vector) b = unsqueeze(b, b.rank());
  if (!left) b = transposed(b);
  if (rows(b) != rows(a)) {
    throw UserError("[linalg.solve] matrices {} and right sides {} do not fit.", to_string(a.shape()),
                    to_string(call.value("B")->shape()));
  }
  Shape batch = common_batch(a, b, "linalg.solve");
  Expr packed = with_batch(lu.packed, batch), order = over_batch(row_order(lu.pivots, rows(a)), batch);
  a = with_batch(a, batch);
  b = with_batch(b, batch);
  Expr x = detach(lu_solved(packed, order, b, !left));
  x = x + lu_solved(packed, order, b - dot(a, x, !left), !left);
  if (!left) x = transposed(x);
  if (vector) x = squeeze(x, x.rank() - 1);
  result(call, x, call.dtype("A"));
  result(call, lu.packed, call.dtype("A"));
  integer_result(call, lu.pivots);
  integer_result(call, lu.info);
}

Expr inverse_by(Expr packed, Expr pivots) {
  Expr one = with_batch(identity(*packed.b, packed.dtype(), rows(packed), rows(packed)), batch_of(packed.shape()));
  return lu_solved(packed, row_order(pivots, rows(packed)), one);
}

// linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)
void linalg_inv_ex(Call& call) {
  Expr a = matrix_argument(call, "A");
  require_square(call, a);
  Lu lu = lu_of(detach(a));
  if (call.boolean("check_errors")) check_factored(call, lu.info, "linalg.inv_ex");
  Expr x = inverse_by(lu.packed, lu.pivots);
  x = x + dot(x, identity(call.b, a.dtype(), rows(a), rows(a)) - dot(a, x));
  result(call, x, call.dtype("A"));
  integer_result(call, lu.info);
}

// -- determinants ---------------------------------------------------------------------------------------------------

Expr product(Expr x) { return {x.b, build::reduce(*x.b, "reduce_prod", x.v, {-1})}; }

// -1 for an odd number of exchanges.
Expr parity(Expr pivots, DType dtype) {
  Expr step = iota(*pivots.b, DType::kI32, pivots.shape().back(), 1);
  return 1.0 - 2.0 * cast(binary("rem_floor", sum(cast(pivots != step, DType::kI32), {pivots.rank() - 1}), 2.0), dtype);
}

// The sum of all products of elements.
Expr inner(Expr x, Expr y) { return sum(x * y, {x.rank() - 2, x.rank() - 1}); }

// _linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots). Its derivative is the transposed adjugate,
// det(a) a^-1; a pivot of 0 counts as a very small one there, as in torch.
void linalg_det(Call& call) {
  Expr a = matrix_argument(call, "A");
  require_square(call, a);
  Lu lu = lu_of(detach(a));
  Expr sign = parity(lu.pivots, a.dtype());
  Expr determinant = product(diagonal(lu.packed)) * sign;
  determinant = grafted(call, determinant, [&] {
    Expr on_diagonal = identity(call.b, a.dtype(), rows(a), rows(a)) > 0.0;
    double small = std::numeric_limits<float>::epsilon();
    Expr packed = where(on_diagonal && lu.packed == 0.0, small, lu.packed);
    Expr factor = product(diagonal(packed)) * sign;
    Expr adjugate = inverse_by(packed, lu.pivots) * unsqueeze(unsqueeze(factor, factor.rank()), factor.rank() + 1);
    return inner(detach(transposed(adjugate)), a);
  });
  result(call, determinant, call.dtype("A"));
  result(call, lu.packed, call.dtype("A"));
  integer_result(call, lu.pivots);
}

// _linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)
void linalg_slogdet(Call& call) {
  Expr a = matrix_argument(call, "A");
  require_square(call, a);
  Lu lu = lu_of(detach(a));
  Expr pivot = diagonal(lu.packed);
  Expr size = sum(log(abs(pivot)), {pivot.rank() - 1});
  size = grafted(call, size, [&] { return inner(detach(transposed(inverse_by(lu.packed, lu.pivots))), a); });
  result(call, product(sign(pivot)) * parity(lu.pivots, a.dtype()), call.dtype("A"));
  result(call, size, call.dtype("A"));
  result(call, lu.packed, call.dtype("A"));
  integer_result(call, lu.pivots);
}

// linalg_matrix_exp(Tensor self): halved until its norm is at most 1, a Taylor polynomial, and squared as often
void matrix_exp(Call& call) {
  constexpr int kTerms = 14, kHalvings = 20;
  Expr a = matrix_argument(call, "self");
  require_square(call, a);
  std::vector<double> powers;
  for (int i = 0; i <= kHalvings; ++i) powers.push_back(std::exp2(-i));
  const std::int64_t last = a.rank() - 2;  // of the sums of columns
  Expr norm = reduce_max(sum(abs(detach(a)), {last}), {last});
  Expr halvings = unary("ceil", log(max(norm, full_like(norm, 1))) * (1 / std::numbers::ln2));
  halvings = clamp(halvings, 0, kHalvings);
  auto per_matrix = [](Expr x) { return unsqueeze(unsqueeze(x, x.rank()), x.rank() + 1); };
  Expr x = a * per_matrix(take(constant(call.b, a.dtype(), {kHalvings + 1}, powers), cast(halvings, DType::kI32), 0));
  Expr one = with_batch(identity(call.b, a.dtype(), rows(a), rows(a)), batch_of(a.shape())), y = one;
  for (int term = kTerms; term >= 1; --term) y = one + dot(x, y) * (1.0 / term);
  for (int i = 0; i < kHalvings; ++i) y = where(per_matrix(halvings) > static_cast<double>(i), dot(y, y), y);
  result(call, y, call.dtype("self"));
}

// _linalg_check_errors(Tensor info, str api_name, *, bool is_matrix)
void linalg_check_errors(Call& call) { check_factored(call, expr(call, call.value("info")), call.text("api_name")); }

}  // namespace

void register_linear_algebra(HandlerTable& table) {
  table.add("aten::linalg_solve_triangular", linalg_solve_triangular);
  table.add("aten::triangular_solve", solve_by_triangle);
  table.add("aten::linalg_cholesky_ex", linalg_cholesky_ex);
  table.add("aten::cholesky", cholesky);
  table.add("aten::cholesky_solve", cholesky_solve);
  table.add("aten::cholesky_inverse", cholesky_inverse);
  table.add("aten::linalg_lu_factor_ex", linalg_lu_factor_ex);
  table.add("aten::linalg_lu", linalg_lu);
  table.add("aten::lu_unpack", lu_unpack);
  table.add("aten::linalg_lu_solve", linalg_lu_solve);
  table.add("aten::_linalg_solve_ex", linalg_solve_ex);
  table.add("aten::linalg_inv_ex", linalg_inv_ex);
  table.add("aten::_linalg_det", linalg_det);
  table.add("aten::_linalg_slogdet", linalg_slogdet);
  table.add("aten::linalg_matrix_exp", matrix_exp);
  table.add("aten::_linalg_check_errors", linalg_check_errors);
}

}  // namespace poptorch
