// Factors that are orthogonal: QR, eigenvalues of symmetric matrices, singular values. What they are factors of is
// taken as a constant where they are computed; the derivative is written as a path beside it.
#include <limits>

#include "poptorch/aten/support/factors.h"

namespace poptorch {
namespace {

void result(Call& call, Expr value, ScalarType type) { call.result(cast(value, graph_dtype(type)).v, type); }

Expr as_row(Expr x) { return unsqueeze(x, x.rank() - 1); }
Expr as_column(Expr x) { return unsqueeze(x, x.rank()); }

// -- reflections ----------------------------------------------------------------------------------------------------

// q = h_1 h_2 ... h_k with h_i = 1 - tau_i v_i v_i^T is 1 - v t v^T (Schreiber and Van Loan), t = (1 + d n)^-1 d with
// d = diag(tau) and n what v^T v has above its diagonal. No step divides by a tau, which may be 0.
class Reflections {
 public:
  // packed: (M, >= K), the vectors below the diagonal; tau: (K)
  Reflections(Expr packed, Expr tau) : tau_(as_column(tau)) {
    std::int64_t k = tau.shape().back();
    Expr below = triangle(first_columns(packed, k), false, true);
    vectors_ = below + identity(*packed.b, packed.dtype(), rows(packed), k);
    system_ = tau_ * triangle(dot(vectors_, vectors_, true, false), true, true);
  }

  Expr times(Expr x, bool transpose = false) const {  // q x, or q^T x
    Expr y = dot(vectors_, x, true, false);
    // The diagonal of ones is understood.
    aspen::TriangularSolveAttrs attrs{.upper = true, .transpose = transpose, .unit = true};
    y = transpose ? tau_ * triangular_solve(system_, y, attrs) : triangular_solve(system_, tau_ * y, attrs);
    return x - dot(vectors_, y);
  }

 private:
  Expr tau_, vectors_, system_;
};

struct Householder {
  Expr packed, tau;
};
Householder householder_of(Expr a) {
  aspen::Op* node = a.b->emit("householder", {a.v}, {});
  return {expr(*a.b, node->output(0)), expr(*a.b, node->output(1))};
}

// geqrf(Tensor self) -> (Tensor a, Tensor tau)
void geqrf(Call& call) {
  if (call.training()) decline("torch has no gradient of geqrf");
  Householder found = householder_of(matrix_argument(call, "self"));
  result(call, found.packed, call.dtype("self"));
  result(call, found.tau, call.dtype("self"));
}

// linalg_householder_product(Tensor input, Tensor tau): the first columns of q
void householder_product(Call& call) {
  Expr packed = matrix_argument(call, "input"), tau = in_float(expr(call, call.value("tau")));
  Expr one = with_batch(identity(call.b, packed.dtype(), rows(packed), columns(packed)), batch_of(packed.shape()));
  result(call, Reflections(packed, tau).times(one), call.dtype("input"));
}

// ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False): q times input3
void ormqr(Call& call) {
  if (call.training()) decline("torch has no gradient of ormqr");
  Expr packed = matrix_argument(call, "self"), tau = in_float(expr(call, call.value("input2")));
  Expr x = matrix_argument(call, "input3");
  bool left = call.boolean("left"), transpose = call.boolean("transpose");
  Expr y = Reflections(packed, tau).times(left ? x : transposed(x), left ? transpose : !transpose);
  result(call, left ? y : transposed(y), call.dtype("self"));
}

// The derivative of a1 = q r1 and r2 = q^T a2, with w = q^T da1 r1^-1 and the skew matrix o of its lower triangle:
//   dq = q o + (1 - q q^T) da1 r1^-1,  dr1 = (w - o) r1,  dr2 = q^T da2 - o r2
struct QrPath {
  QrPath(Expr a, Expr q_in, Expr r) : q(q_in), k(columns(q)) {
    first = first_columns(r, k);
    // x r1^-1 = (r1^-T x^T)^T
    over = transposed(triangular_solve(first, transposed(first_columns(a, k)), {.upper = true, .transpose = true}));
    w = dot(q, over, true, false);
    Expr below = triangle(w, false, true);
    skew = below - transposed(below);
  }
  Expr of_q() const { return dot(q, skew) + over - dot(q, w); }
  Expr of_r(Expr a, Expr r) const {
    Expr square = dot(w - skew, first);
    std::int64_t n = columns(a), axis = a.rank() - 1;
    if (n == k) return square;
    Expr rest = dot(q, slice(a, axis, k, n), true, false) - dot(skew, slice(r, axis, k, n));
    return concat({square, rest}, axis);
  }

  Expr q, first, over, w, skew;
  std::int64_t k;
};

// linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)
void linalg_qr(Call& call) {
  const std::string mode = call.text("mode");
  Expr a = matrix_argument(call, "A");
  std::int64_t m = rows(a), n = columns(a), k = std::min(m, n);
  const bool complete = mode == "complete" && m > n;
  if (mode != "reduced" && mode != "complete") decline("a part of the factors");
  if (complete && call.training()) decline("torch has no gradient of the complete factor");
  Householder found = householder_of(detach(a));
  std::int64_t width = complete ? m : k;
  Expr one = with_batch(identity(call.b, a.dtype(), m, width), batch_of(a.shape()));
  Expr q = detach(Reflections(found.packed, found.tau).times(one));
  Expr r = detach(triangle(first_rows(found.packed, width), true));
  if (call.training()) {
    QrPath path(a, q, r);
    r = grafted(call, r, [&] { return path.of_r(a, r); });
    q = grafted(call, q, [&] { return path.of_q(); });
  }
  result(call, q, call.dtype("A"));
  result(call, r, call.dtype("A"));
}

// -- values ---------------------------------------------------------------------------------------------------------

struct Svd {
  Expr u, s, v;
};
Svd svd_of(Expr a) {
  aspen::Op* node = a.b->emit("svd", {a.v}, {});
  return {expr(*a.b, node->output(0)), expr(*a.b, node->output(1)), expr(*a.b, node->output(2))};
}

struct Eigen {
  Expr values, vectors;
};
Eigen eigen_of(Expr a) {
  aspen::Op* node = a.b->emit("symmetric_eigen", {a.v}, {});
  return {expr(*a.b, node->output(0)), expr(*a.b, node->output(1))};
}

// linalg_svdvals(Tensor A, *, str? driver=None): s_i = u_i^T a v_i
void linalg_svdvals(Call& call) {
  Expr a = matrix_argument(call, "A");
  Svd found = svd_of(detach(a));
  Expr s = grafted(call, found.s, [&] { return sum(found.u * dot(a, found.v), {a.rank() - 2}); });
  result(call, s, call.dtype("A"));
}

// linalg_eigvalsh(Tensor self, str UPLO='L'): w_i = v_i^T a v_i
void linalg_eigvalsh(Call& call) {
  Expr a = matrix_argument(call, "self");
  require_square(call, a);
  const std::string side = call.text("UPLO");
  const bool upper = side == "U" || side == "u";
  Eigen found = eigen_of(detach(upper ? transposed(a) : a));
  Expr values = grafted(call, found.values, [&] { return sum(found.vectors * dot(a, found.vectors), {a.rank() - 2}); });
  result(call, values, call.dtype("self"));
}

// What is at most the larger of atol and rtol times the largest counts as 0.
Expr threshold(Call& call, Expr a, Expr largest) {
  double fallback = std::numeric_limits<float>::epsilon() * static_cast<double>(std::max(rows(a), columns(a)));
  auto given = [&](const char* argument) { return in_float(expr(call, operand(call, argument, ScalarType::Float))); };
  auto per_matrix = [](Expr x) { return unsqueeze(x, x.rank()); };
  Expr absolute = call.has("atol") ? given("atol") : full(call.b, a.dtype(), {}, 0);
  Expr relative = full(call.b, a.dtype(), {}, fallback);
  if (call.has("rtol")) {
    relative = given("rtol");
  } else if (call.has("atol")) {
    relative = where(absolute > 0.0, 0.0, relative);
  }
  return max(per_matrix(absolute), per_matrix(relative) * largest);
}

// linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False)
//   dp = -p da p + p p^T da^T (1 - a p) + (1 - p a) da^T p^T p
void linalg_pinv(Call& call) {
  Expr a = matrix_argument(call, "self"), fixed = detach(a), inverse;
  std::int64_t last = a.rank() - 2;  // of the values
  if (call.boolean("hermitian")) {
    require_square(call, a);
    Eigen found = eigen_of(fixed);
    Expr size = abs(found.values), largest = reduce_max(size, {last}, true);
    Expr over = where(size > threshold(call, a, largest), 1.0 / found.values, 0.0);
    inverse = dot(found.vectors * as_row(over), found.vectors, false, true);
  } else {
    Svd found = svd_of(fixed);
    Expr over = where(found.s > threshold(call, a, reduce_max(found.s, {last}, true)), 1.0 / found.s, 0.0);
    inverse = dot(found.v * as_row(over), found.u, false, true);
  }
  inverse = detach(inverse);
  inverse = grafted(call, inverse, [&] {
    Expr p = inverse;
    Expr beside = identity(call.b, a.dtype(), rows(a), rows(a)) - dot(fixed, p);
    Expr before = identity(call.b, a.dtype(), columns(a), columns(a)) - dot(p, fixed);
    Expr second = dot(dot(p, dot(p, a, true, true)), beside), third = dot(before, dot(a, dot(p, p, true, false), true));
    return second + third - dot(p, dot(a, p));
  });
  result(call, inverse, call.dtype("self"));
}

}  // namespace

void register_orthogonal(HandlerTable& table) {
  table.add("aten::geqrf", geqrf);
  table.add("aten::linalg_householder_product", householder_product);
  table.add("aten::ormqr", ormqr);
  table.add("aten::linalg_qr", linalg_qr);
  table.add("aten::linalg_svdvals", linalg_svdvals);
  table.add("aten::linalg_eigvalsh", linalg_eigvalsh);
  table.add("aten::linalg_pinv.atol_rtol_tensor", linalg_pinv);
}

}  // namespace poptorch
