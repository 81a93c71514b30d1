#include "poptorch/aten/support/matrix.h"

namespace poptorch {
namespace {

Shape leading(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }

Shape joined(Shape front, std::initializer_list<std::int64_t> back) {
  front.insert(front.end(), back);
  return front;
}

// Integer products are sums of products: exact, which a floating point product would not be.
Expr product(Expr x, Expr y) {
  if (aspen::is_floating(x.dtype())) return dot(x, y);
  Expr left = unsqueeze(x, x.rank()), right = unsqueeze(y, y.rank() - 2);
  return sum(left * right, {left.rank() - 2});
}

}  // namespace

Expr matmul(Expr x, Expr y) {
  if (x.rank() == 0 || y.rank() == 0) {
    throw UserError("[matmul] shapes {} and {}: both need at least one axis.", to_string(x.shape()),
                    to_string(y.shape()));
  }
  bool row = x.rank() == 1, column = y.rank() == 1;
  if (row) x = unsqueeze(x, 0);
  if (column) y = unsqueeze(y, 1);
  std::int64_t m = x.size(x.rank() - 2), k = x.size(x.rank() - 1), n = y.size(y.rank() - 1);
  if (y.size(y.rank() - 2) != k) {
    throw UserError("[matmul] inner sizes differ: {} in shape {} and {} in shape {}.", k, to_string(x.shape()),
                    y.size(y.rank() - 2), to_string(y.shape()));
  }
  Shape batch = aspen::broadcast_shapes(leading(x.shape()), leading(y.shape()), "matmul");
  Expr result;
  if (y.rank() == 2 && x.rank() > 2) {
    // One product over all leading axes: its weight gradient is one product too.
    result = product(reshape(x, {aspen::numel(batch) * m, k}), y);
  } else if (batch.empty()) {
    result = product(x, y);
  } else {
    std::int64_t count = aspen::numel(batch);
    Expr left = reshape(broadcast(x, joined(batch, {m, k})), {count, m, k});
    Expr right = reshape(broadcast(y, joined(batch, {k, n})), {count, k, n});
    result = product(left, right);
  }
  Shape shape = batch;
  if (!row) shape.push_back(m);
  if (!column) shape.push_back(n);
  return reshape(result, std::move(shape));
}

Expr linear(Expr x, Expr w, Value* bias) {
  std::int64_t k = x.shape().empty() ? 1 : x.shape().back();
  if (x.shape().empty() || w.shape().back() != k) {
    throw UserError("[linear] an input of shape {} does not fit a weight of shape {}; their last sizes must be equal.",
                    to_string(x.shape()), to_string(w.shape()));
  }
  Shape shape(x.shape().begin(), x.shape().end() - 1);
  Expr rows = reshape(x, {aspen::numel(shape), k});
  Expr y;
  if (w.rank() == 1) {
    y = dot(rows, reshape(w, {1, k}), false, true);
  } else {
    y = dot(rows, w, false, true);
    shape.push_back(w.size(0));
  }
  if (bias != nullptr) y = y + expr(*x.b, bias);
  return reshape(y, std::move(shape));
}

Expr scaled_sum(Expr self, double beta, Expr product, double alpha) {
  if (alpha != 1) product = alpha == 0 ? full_like(product, 0) : product * alpha;
  if (beta == 0) return product;
  return (beta == 1 ? self : self * beta) + product;
}

}  // namespace poptorch
