// Attributes of the factorisations of matrices and of what is solved with them. Matrices lie in the last two axes,
// batches in the axes before.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// triangular_solve(a, b): x with op(a) x = b, where op transposes if asked. Only one triangle of a is read, and with
// `unit` not its diagonal, which counts as ones.
struct TriangularSolveAttrs {
  bool upper = false;
  bool transpose = false;
  bool unit = false;

  void visit(AttrVisitor& v) {
    v("upper", upper);
    v("transpose", transpose);
    v("unit", unit);
  }
};

// cholesky(a) -> (l, info) of a + shift * 1, of which the lower triangle is read.
struct CholeskyAttrs {
  double shift = 0;

  void visit(AttrVisitor& v) { v("shift", shift); }
};

// pivot_order(pivots): the order of the rows after the exchanges of lu.
struct PivotOrderAttrs {
  std::int64_t rows = 1;

  void visit(AttrVisitor& v) { v("rows", rows); }
};

// check_factored(info): an error unless all are 0, in torch's words.
struct CheckFactoredAttrs {
  std::string who;      // "aten::linalg_inv_ex"
  std::string api;      // "linalg.inv"
  std::string problem;  // "the matrix is singular at row {}": info takes the place of {}

  void visit(AttrVisitor& v) {
    v("who", who);
    v("api", api);
    v("problem", problem);
  }
};

}  // namespace aspen
