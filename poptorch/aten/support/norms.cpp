#include "poptorch/aten/support/norms.h"

#include <cmath>

#include "aspen/ops/normalize/normalize.h"

namespace poptorch {

Normalized normalize(Expr x, Axes axes, double epsilon) {
  aspen::Op* op = x.b->emit("normalize", {x.v}, aspen::NormalizeAttrs{std::move(axes), epsilon});
  return {{x.b, op->output(0)}, {x.b, op->output(1)}, {x.b, op->output(2)}};
}

Expr variance(Expr x, const Axes& axes, double correction, bool keep) {
  double count = 1;
  for (auto axis : axes) count *= static_cast<double>(x.size(axis));
  Expr away = x - mean(x, axes, true);
  return sum(away * away, axes, keep) / std::max(count - correction, 0.0);
}

Expr safe_sqrt(Expr x) {
  Expr zero = x == 0.0;
  return where(zero, 0.0, sqrt(where(zero, 1.0, x)));
}

Expr vector_norm(Expr x, double p, const Axes& axes, bool keep) {
  if (p == 0) return sum(cast(x != 0.0, x.dtype()), axes, keep);
  if (p == 1) return sum(abs(x), axes, keep);
  if (p == 2) return safe_sqrt(sum(x * x, axes, keep));
  if (std::isinf(p)) return p > 0 ? reduce_max(abs(x), axes, keep) : reduce_min(abs(x), axes, keep);
  Expr size = abs(x), at_zero = size == 0.0;
  Expr powers = pow(size, p);
  // The slope at 0 is infinite; torch lets no gradient through there.
  if (p < 1) powers = where(at_zero, 0.0, pow(where(at_zero, 1.0, size), p));
  Expr total = sum(powers, axes, keep);
  if (p < 0) {  // one 0 makes it 0
    Expr has_zero = cast(reduce_max(cast(at_zero, DType::kI32), axes, keep), DType::kBool);
    return where(has_zero, 0.0, pow(where(has_zero, 1.0, total), 1 / p));
  }
  Expr zero = total == 0.0;
  return where(zero, 0.0, pow(where(zero, 1.0, total), 1 / p));
}

}  // namespace poptorch
