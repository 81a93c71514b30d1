// Deviations, norms and distances. All of them compute in float32 or better.
#include "poptorch/aten/support/norms.h"

#include "poptorch/aten/support/matrix.h"

namespace poptorch {
namespace {

bool keepdim(const Call& call) { return call.has("keepdim") && call.boolean("keepdim"); }

// var(Tensor self, bool unbiased=True), var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False),
// var.correction(Tensor self, int[1]? dim, *, int? correction, bool keepdim=False); std.*; var_mean.*, std_mean.*
Handler spread(bool root, bool with_mean) {
  return [root, with_mean](Call& call) {
    ScalarType type = call.dtype("self");
    Expr x = expr(call, call.value("self"));
    if (!is_float(type))
      throw UserError("[{}] takes floating point tensors, not {}.", call.name(), c10::toString(type));
    Axes axes = axes_argument(call, "dim", x.shape());
    double correction = call.has("unbiased") ? (call.boolean("unbiased") ? 1 : 0) : number_or(call, "correction", 1);
    Expr result = variance(in_float(x), axes, correction, keepdim(call));
    if (root) result = safe_sqrt(result);
    call.result(cast(result, x.dtype()).v, type);
    if (with_mean) call.result(cast(mean(in_float(x), axes, keepdim(call)), x.dtype()).v, type);
  };
}

// norm.Scalar(Tensor self, Scalar p=2), norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False),
// norm.ScalarOpt_dim_dtype(... ScalarType dtype), norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype),
// linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)
Handler norm(const char* order) {
  return [order](Call& call) {
    ScalarType type = call.dtype_option("dtype").value_or(call.dtype("self"));
    if (!is_float(type))
      throw UserError("[{}] takes floating point tensors, not {}; pass dtype=torch.float32.", call.name(),
                      c10::toString(type));
    Expr x = expr(call, operand(call, "self", type));
    Expr y = vector_norm(in_float(x), number_or(call, order, 2), axes_argument(call, "dim", x.shape()), keepdim(call));
    call.result(cast(y, x.dtype()).v, type);
  };
}

// dist(Tensor self, Tensor other, Scalar p=2)
void dist(Call& call) {
  ScalarType type = floating_type(call.result_type({"self", "other"}));
  Expr d = in_float(expr(call, operand(call, "self", type))) - in_float(expr(call, operand(call, "other", type)));
  call.result(cast(vector_norm(d, call.number("p"), all_axes(d.shape()), false), graph_dtype(type)).v, type);
}

// Rows of x (..., P, M) against rows of y (..., R, M).
Expr distances(Expr x, Expr y, double p) {
  Expr d = unsqueeze(x, x.rank() - 1) - unsqueeze(y, y.rank() - 2);
  return vector_norm(d, p, {d.rank() - 1}, false);
}

// |x|^2 + |y|^2 - 2 x y: one product instead of all differences, as torch does for many rows.
Expr euclidean_by_product(Expr x, Expr y) {
  Expr xx = sum(x * x, {x.rank() - 1}, true), yy = sum(y * y, {y.rank() - 1}, true);
  Axes last = all_axes(y.shape());
  std::swap(last[last.size() - 1], last[last.size() - 2]);
  Expr squared = xx + transpose(yy, last) - matmul(x, transpose(y, last)) * 2.0;
  return safe_sqrt(relu(squared));
}

// cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None), _cdist_forward(Tensor x1, Tensor x2, float p, int?
// compute_mode), _euclidean_dist(Tensor x1, Tensor x2)
Handler cdist(bool euclidean) {
  return [euclidean](Call& call) {
    ScalarType type = floating_type(call.result_type({"x1", "x2"}));
    Expr x = in_float(expr(call, operand(call, "x1", type))), y = in_float(expr(call, operand(call, "x2", type)));
    if (x.rank() < 2 || y.rank() < 2 || x.shape().back() != y.shape().back()) {
      throw UserError("[cdist] shapes {} and {}: both need at least 2 axes and the same last size.",
                      to_string(x.shape()), to_string(y.shape()));
    }
    double p = euclidean ? 2 : call.number("p");
    std::int64_t mode = euclidean ? 1 : integer_or(call, "compute_mode", 0);
    bool many = x.size(x.rank() - 2) > 25 || y.size(y.rank() - 2) > 25;
    bool by_product = p == 2 && (mode == 1 || (mode == 0 && many));
    call.result(cast(by_product ? euclidean_by_product(x, y) : distances(x, y, p), graph_dtype(type)).v, type);
  };
}

// cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08): torch raises small norms to eps without telling
// autograd, so the gradient sees the norm itself.
void cosine_similarity(Call& call) {
  ScalarType type = floating_type(call.result_type({"x1", "x2"}));
  Expr x = in_float(expr(call, operand(call, "x1", type))), y = in_float(expr(call, operand(call, "x2", type)));
  Shape shape = aspen::broadcast_shapes(x.shape(), y.shape(), "cosine_similarity");
  if (shape.empty()) shape = {1};  // two numbers are vectors of one element
  x = broadcast(x, shape), y = broadcast(y, shape);
  std::int64_t axis = axis_argument(call, "dim", shape);
  double eps = call.number("eps");
  auto unit = [&](Expr v) {
    Expr norm = vector_norm(v, 2, {axis}, true);
    return v / where(norm < eps, norm - detach(norm) + eps, norm);
  };
  call.result(cast(sum(unit(x) * unit(y), {axis}), graph_dtype(type)).v, type);
}

// linalg_cross(Tensor self, Tensor other, *, int dim=-1): x[1, 2, 0] y[2, 0, 1] - x[2, 0, 1] y[1, 2, 0]
void cross(Call& call) {
  ScalarType type = call.result_type({"self", "other"});
  Expr x = in_float(expr(call, operand(call, "self", type))), y = in_float(expr(call, operand(call, "other", type)));
  Shape shape = aspen::broadcast_shapes(x.shape(), y.shape(), "cross");
  std::int64_t axis = axis_argument(call, "dim", shape);
  if (shape.at(axis) != 3)
    throw UserError("[cross] axis {} of shape {} has size {}; expected 3.", axis, to_string(shape), shape.at(axis));
  x = broadcast(x, shape), y = broadcast(y, shape);
  auto rolled = [&](Expr v, std::int64_t by) { return concat({slice(v, axis, by, 3), slice(v, axis, 0, by)}, axis); };
  call.result(cast(rolled(x, 1) * rolled(y, 2) - rolled(x, 2) * rolled(y, 1), graph_dtype(type)).v, type);
}

// pdist(Tensor self, float p=2.), _pdist_forward(...): distances of all pairs of rows
void pdist(Call& call) {
  Expr x = expr(call, call.value("self"));
  if (x.rank() != 2) throw UserError("[pdist] takes a matrix, not shape {}.", to_string(x.shape()));
  std::vector<std::int32_t> first, second;
  for (std::int32_t i = 0; i < x.size(0); ++i) {
    for (std::int32_t j = i + 1; j < x.size(0); ++j) first.push_back(i), second.push_back(j);
  }
  Shape shape{static_cast<std::int64_t>(first.size())};
  Expr rows = in_float(x);
  Expr d = take(rows, constant_i32(call.b, shape, first), 0) - take(rows, constant_i32(call.b, shape, second), 0);
  call.result(cast(vector_norm(d, call.number("p"), {1}, false), x.dtype()).v, call.dtype("self"));
}

// renorm(Tensor self, Scalar p, int dim, Scalar maxnorm): slices along dim that are longer are shortened to maxnorm
void renorm(Call& call) {
  Expr x = expr(call, call.value("self"));
  std::int64_t axis = axis_argument(call, "dim", x.shape());
  Axes others = all_axes(x.shape());
  others.erase(others.begin() + axis);
  double most = call.number("maxnorm");
  Expr wide = in_float(x), length = vector_norm(wide, call.number("p"), others, true);
  Expr y = where(length > most, wide * (most / (length + 1e-7)), wide);
  call.result(cast(y, x.dtype()).v, call.dtype("self"));
}

// cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None): rows are variables, columns
// observations, which count as often (fweights) or as much (aweights) as the weights say.
void cov(Call& call) {
  ScalarType type = floating_type(call.dtype("self"));
  Expr x = in_float(expr(call, operand(call, "self", type)));
  if (x.rank() > 2) throw UserError("[cov] takes at most 2 axes, not shape {}.", to_string(x.shape()));
  if (x.rank() < 2) x = reshape(x, {1, x.numel()});
  double correction = call.number("correction");
  Expr total = full(call.b, x.dtype(), {}, static_cast<double>(x.size(1))), freedom = total - correction, weighted = x;
  if (call.has("fweights") || call.has("aweights")) {
    Expr weights = full(call.b, x.dtype(), {x.size(1)}, 1);
    for (const char* name : {"fweights", "aweights"}) {
      if (call.has(name)) weights = weights * cast(expr(call, call.value(name)), x.dtype());
    }
    total = sum(weights, {0});
    freedom = total - correction;
    if (call.has("aweights") && correction != 0) {
      freedom = total - sum(weights * cast(expr(call, call.value("aweights")), x.dtype()), {0}) * correction / total;
    }
    x = x - sum(x * weights, {1}, true) / total;
    weighted = x * weights;
  } else {
    x = x - mean(x, {1}, true);
    weighted = x;
  }
  Expr result = dot(x, weighted, false, true) / where(freedom <= 0.0, 0.0, freedom);
  if (x.size(0) == 1) result = reshape(result, {});
  call.result(cast(result, graph_dtype(type)).v, type);
}

}  // namespace

void register_statistics(HandlerTable& table) {
  for (const char* overload : {"", ".dim", ".correction"}) {
    table.add(std::string("aten::var") + overload, spread(false, false));
    table.add(std::string("aten::std") + overload, spread(true, false));
    table.add(std::string("aten::var_mean") + overload, spread(false, true));
    table.add(std::string("aten::std_mean") + overload, spread(true, true));
  }
  for (const char* overload : {"Scalar", "ScalarOpt_dim", "ScalarOpt_dim_dtype", "ScalarOpt_dtype"}) {
    table.add(std::string("aten::norm.") + overload, norm("p"));
  }
  table.add("aten::linalg_vector_norm", norm("ord"));
  table.add("aten::dist", dist);
  table.add("aten::cdist", cdist(false));
  table.add("aten::_cdist_forward", cdist(false));
  table.add("aten::_euclidean_dist", cdist(true));
  table.add("aten::cosine_similarity", cosine_similarity);
  table.add("aten::linalg_cross", cross);
  table.add("aten::cov", cov);
  table.add("aten::pdist", pdist);
  table.add("aten::_pdist_forward", pdist);
  table.add("aten::renorm", renorm);
}

}  // namespace poptorch
