// Factorisations of matrices. Those whose factors are unique have gradients here:
//   triangular_solve, x = t^-1 b:  db = t^-T g, dt = -db x^T within the triangle;
//   cholesky, a = l l^T:           da = l^-T phi(l^T g) l^-1, phi being half the symmetric part that a triangle has;
//   lu, P a = l u:                 P da = l^-T (tril(l^T gl, -1) + triu(gu u^T)) u^-T.
// The others (householder, symmetric_eigen, svd) leave their gradients to those who know what they are used for.
#include "aspen/ops/linalg/linalg.h"

#include "aspen/ops/build.h"
#include "aspen/ops/index/index.h"
#include "aspen/ops/infer.h"

namespace aspen {
namespace {

std::int64_t rows(const Shape& shape) { return shape[shape.size() - 2]; }
std::int64_t columns(const Shape& shape) { return shape.back(); }

void check_matrix(const InferContext& c, std::size_t i) {
  const TensorType& type = c.in(i);
  c.check(is_floating(type.dtype) && type.rank() >= 2, "takes floating point matrices, of rank 2 and more, not {}.",
          to_string(type));
}
void check_square(const InferContext& c, std::size_t i) {
  check_matrix(c, i);
  c.check(rows(c.in(i).shape) == columns(c.in(i).shape), "takes square matrices, not {}.", to_string(c.in(i)));
}

// The batch axes of a matrix, followed by others.
TensorType per_matrix(const TensorType& matrix, DType dtype, const Shape& rest) {
  TensorType type{dtype, Shape(matrix.shape.begin(), matrix.shape.end() - 2)};
  type.shape.insert(type.shape.end(), rest.begin(), rest.end());
  return type;
}

std::vector<TensorType> infer_triangular_solve(const InferContext& c) {
  check_square(c, 0);
  check_matrix(c, 1);
  const TensorType &a = c.in(0), &b = c.in(1);
  Shape expected = a.shape;
  expected.back() = columns(b.shape);
  c.check(a.dtype == b.dtype && b.shape == expected, "a matrix {} and right sides {} do not fit.", to_string(a),
          to_string(b));
  return {b};
}

std::vector<TensorType> infer_cholesky(const InferContext& c) {
  check_square(c, 0);
  return {c.in(0), per_matrix(c.in(0), DType::kI32, {})};
}

std::vector<TensorType> infer_lu(const InferContext& c) {
  check_matrix(c, 0);
  const TensorType& a = c.in(0);
  std::int64_t steps = std::min(rows(a.shape), columns(a.shape));
  return {a, per_matrix(a, DType::kI32, {steps}), per_matrix(a, DType::kI32, {})};
}

std::vector<TensorType> infer_pivot_order(const InferContext& c) {
  TensorType y = c.in(0);
  const std::int64_t size = c.attrs<PivotOrderAttrs>().rows;
  c.check(y.dtype == DType::kI32 && y.rank() >= 1 && y.shape.back() <= size,
          "takes i32 pivots of at most {} rows, not {}.", size, to_string(y));
  y.shape.back() = size;
  return {y};
}

std::vector<TensorType> infer_householder(const InferContext& c) {
  check_matrix(c, 0);
  const TensorType& a = c.in(0);
  return {a, per_matrix(a, a.dtype, {std::min(rows(a.shape), columns(a.shape))})};
}

std::vector<TensorType> infer_symmetric_eigen(const InferContext& c) {
  check_square(c, 0);
  return {per_matrix(c.in(0), c.in(0).dtype, {rows(c.in(0).shape)}), c.in(0)};
}

std::vector<TensorType> infer_svd(const InferContext& c) {
  check_matrix(c, 0);
  const TensorType& a = c.in(0);
  std::int64_t m = rows(a.shape), n = columns(a.shape), k = std::min(m, n);
  return {per_matrix(a, a.dtype, {m, k}), per_matrix(a, a.dtype, {k}), per_matrix(a, a.dtype, {n, k})};
}

// -- gradients ------------------------------------------------------------------------------------------------------

Value* transposed(Builder& b, Value* x) { return build::swap_axes(b, x, x->rank() - 2, x->rank() - 1); }

// x with zeros outside of a triangle; `strict`: the diagonal is outside.
Value* triangle(Builder& b, Value* x, bool upper, bool strict) {
  std::int64_t m = rows(x->shape()), n = columns(x->shape());
  Value* row = build::reshape(b, build::iota(b, DType::kI32, m), {m, 1});
  Value* column = build::reshape(b, build::iota(b, DType::kI32, n), {1, n});
  Value* inside = build::binary(b, strict ? "gt" : "ge", upper ? column : row, upper ? row : column);
  return build::select(b, inside, x, build::scalar(b, x->dtype(), 0));
}

Value* solve(Builder& b, Value* a, Value* right, TriangularSolveAttrs attrs) {
  return b.make("triangular_solve", {a, right}, attrs);
}
// right op(a)^-1
Value* solve_from_right(Builder& b, Value* a, Value* right, TriangularSolveAttrs attrs) {
  attrs.transpose = !attrs.transpose;
  return transposed(b, solve(b, a, transposed(b, right), attrs));
}

void triangular_solve_gradient(GradientContext& c) {
  auto attrs = c.attrs<TriangularSolveAttrs>(), back = attrs;
  back.transpose = !attrs.transpose;
  Value* by_right = solve(c.b, c.in(0), c.grad(), back);
  c.set(1, by_right);
  Value *left = attrs.transpose ? c.out() : by_right, *right = attrs.transpose ? by_right : c.out();
  Value* product = build::neg(c.b, build::dot(c.b, left, right, false, true));
  c.set(0, triangle(c.b, product, attrs.upper, attrs.unit));
}

void cholesky_gradient(GradientContext& c) {
  if (c.grad(0) == nullptr) return c.zero(0);
  Builder& b = c.b;
  Value* l = c.out(0);
  Value* phi = build::dot(b, l, c.grad(0), true, false);
  phi = build::add(b, triangle(b, phi, false, false), transposed(b, triangle(b, phi, false, true)));
  TriangularSolveAttrs plain{}, other{.transpose = true};
  Value* symmetric = build::mul(b, solve_from_right(b, l, solve(b, l, phi, other), plain), 0.5);
  // Elements below the diagonal stand for their mirror images, too.
  c.set(0, build::add(b, triangle(b, symmetric, false, false), triangle(b, symmetric, false, true)));
}

Value* identity(Builder& b, DType dtype, std::int64_t n) {
  Value* number = build::iota(b, DType::kI32, n);
  return build::cast(b, build::binary(b, "eq", build::reshape(b, number, {n, 1}), build::reshape(b, number, {1, n})),
                     dtype);
}

// With rows or columns beyond the square part, l = (l1, l2) or u = (u1, u2):
//   l2 = a2 u1^-1 gives da2 = g2 u1^-T and adds -l2^T g2 to what gu u^T is; u2 = l1^-1 a2 likewise.
void lu_gradient(GradientContext& c) {
  if (c.grad(0) == nullptr) return c.zero(0);
  Builder& b = c.b;
  Value *packed = c.out(0), *g = c.grad(0);
  const std::int64_t m = rows(packed->shape()), n = columns(packed->shape()), k = std::min(m, n);
  const std::int64_t row = packed->rank() - 2, column = packed->rank() - 1;
  auto block = [&](Value* x) { return build::slice(b, build::slice(b, x, row, 0, k), column, 0, k); };
  Value* square = block(packed);
  Value* l = build::add(b, triangle(b, square, false, true), identity(b, packed->dtype(), k));
  Value* below = build::dot(b, l, triangle(b, block(g), false, true), true, false);
  Value* above = build::dot(b, triangle(b, block(g), true, false), triangle(b, square, true, false), false, true);
  auto rest = [&](Value* x) { return m > n ? build::slice(b, x, row, k, m) : build::slice(b, x, column, k, n); };
  if (m > n) above = build::sub(b, above, build::dot(b, rest(packed), rest(g), true, false));
  if (m < n) below = build::sub(b, below, build::dot(b, rest(g), rest(packed), false, true));
  auto over_l = [&](Value* x) { return solve(b, square, x, {.upper = false, .transpose = true, .unit = true}); };
  auto over_u = [&](Value* x) { return solve_from_right(b, square, x, {.upper = true, .transpose = true}); };
  Value* da = over_u(over_l(build::add(b, triangle(b, below, false, true), triangle(b, above, true, false))));
  if (m > n) da = build::concat(b, {da, over_u(rest(g))}, row);
  if (m < n) da = build::concat(b, {da, over_l(rest(g))}, column);
  Value* order = build::unsqueeze(b, b.make("pivot_order", {c.out(1)}, PivotOrderAttrs{m}), column);
  Value* zero = build::full_like(b, packed, 0);
  c.set(0, b.make("scatter", {zero, build::broadcast(b, order, packed->shape()), da}, ScatterAttrs{row, "set"}));
}

const TensorType kSquare{DType::kF32, {3, 5, 5}}, kTall{DType::kF32, {2, 5, 3}}, kWide{DType::kF32, {3, 5}};
const TensorType kNumber{DType::kF32, {1, 1}};

void define_solvers(OpRegistry& ops) {
  auto& solver = ops.define<TriangularSolveAttrs>("triangular_solve")
                     .summary("x with op(a) x = b for a triangular a; op transposes where asked.")
                     .input("a", "(batch..., N, N), one triangle of which is read")
                     .input("b", "(batch..., N, K)")
                     .output("x", "shape and type of b")
                     .infer(infer_triangular_solve)
                     .gradient(triangular_solve_gradient);
  for (bool upper : {false, true}) {
    for (bool transpose : {false, true}) {
      for (bool unit : {false, true}) {
        solver.example({.inputs = {kSquare, {DType::kF32, {3, 5, 2}}},
                        .attrs = Attrs::of(TriangularSolveAttrs{upper, transpose, unit}),
                        .low = 0.5,
                        .high = 1.5});
      }
    }
  }
  ops.define<PivotOrderAttrs>("pivot_order")
      .summary("Which row comes where after the exchanges of lu: step i exchanged row i with row pivots[i] - 1.")
      .input("pivots", "i32 (batch..., K), from 1")
      .output("order", "i32 (batch..., rows)")
      .infer(infer_pivot_order)
      .example(
          {.inputs = {{DType::kI32, {4, 3}}}, .attrs = Attrs::of(PivotOrderAttrs{5}), .int_low = 1, .int_high = 6});
  ops.define<CheckFactoredAttrs>("check_factored")
      .summary("An error that names the first matrix whose info is not 0.")
      .input("info", "i32, one per matrix")
      .infer([](const InferContext&) { return std::vector<TensorType>(); })
      .impure();
}

}  // namespace

void define_linalg(OpRegistry& ops) {
  define_solvers(ops);
  ops.define<CholeskyAttrs>("cholesky")
      .summary("l with l l^T = a + shift * 1, lower triangular.")
      .input("a", "(batch..., N, N); the lower triangle of a symmetric matrix")
      .output("l", "shape and type of a")
      .output("info", "i32 (batch...): 0, or the order of the first minor that is not positive")
      .infer(infer_cholesky)
      .gradient(cholesky_gradient)
      .example({.inputs = {kSquare}, .attrs = Attrs::of(CholeskyAttrs{6})})
      .example({.inputs = {kNumber}, .attrs = Attrs::of(CholeskyAttrs{2})});
  ops.define("lu")
      .summary("P a = l u with partial pivoting.")
      .input("a", "(batch..., M, N)")
      .output("packed", "u, and below its diagonal l without its diagonal of ones")
      .output("pivots", "i32 (batch..., min(M, N)), from 1: with which row each was exchanged")
      .output("info", "i32 (batch...): 0, or the first pivot that is 0, from 1")
      .infer(infer_lu)
      .gradient(lu_gradient)
      .example({.inputs = {kSquare}})
      .example({.inputs = {kTall}})
      .example({.inputs = {kWide}})
      .example({.inputs = {kNumber}, .low = 0.5, .high = 1});
  ops.define("householder")
      .summary("a = q r, q a product of reflections 1 - tau v v^T. Has no gradient of its own.")
      .input("a", "(batch..., M, N)")
      .output("packed", "r, and below its diagonal the vectors v without their leading ones")
      .output("tau", "(batch..., min(M, N))")
      .infer(infer_householder)
      .example({.inputs = {kSquare}})
      .example({.inputs = {kTall}})
      .example({.inputs = {kWide}});
  ops.define("symmetric_eigen")
      .summary("Eigenvalues, ascending, and eigenvectors of a symmetric matrix. Has no gradient of its own.")
      .input("a", "(batch..., N, N), the lower triangle of which is read")
      .output("values", "(batch..., N)")
      .output("vectors", "(batch..., N, N), the columns; each up to its sign")
      .infer(infer_symmetric_eigen)
      .example({.inputs = {kSquare}})
      .example({.inputs = {kNumber}});
  ops.define("svd")
      .summary("a = u diag(s) v^T, s descending. Has no gradient of its own.")
      .input("a", "(batch..., M, N)")
      .output("u", "(batch..., M, K), K = min(M, N); columns up to a sign they share with v")
      .output("s", "(batch..., K)")
      .output("v", "(batch..., N, K)")
      .infer(infer_svd)
      .example({.inputs = {kSquare}})
      .example({.inputs = {kTall}})
      .example({.inputs = {kWide}});
}

}  // namespace aspen
