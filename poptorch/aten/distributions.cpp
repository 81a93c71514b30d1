// Draws from distributions whose parameters are tensors, as torch.distributions makes them. The numbers are the
// device's; gamma and Dirichlet variates carry torch's pathwise gradients, counts and classes have none.
#include "aspen/ops/sample/sample.h"
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

// Parameters in float32 or better; the variates are rounded once, at the end.
Expr parameter(Call& call, std::string_view argument) { return in_float(expr(call, call.value(argument))); }

void give(Call& call, Expr x, ScalarType type) { call.result(cast(x, graph_dtype(type)).v, type); }

Expr draw(Call& call, const char* op, std::vector<Value*> parameters) {
  return expr(call, call.b.make(op, std::move(parameters), aspen::SampleAttrs{call.new_stream()}));
}

void require_floating(Call& call, std::string_view argument) {
  if (is_float(call.dtype(argument))) return;
  throw UserError("[{}] takes floating point numbers as {}, not {}.", call.name(), argument,
                  c10::toString(call.dtype(argument)));
}

// _standard_gamma(Tensor self, Generator? generator=None), _sample_dirichlet(...): classes along the last axis,
// poisson(...)
Handler by_self(const char* op) {
  return [op](Call& call) {
    require_floating(call, "self");
    give(call, draw(call, op, {parameter(call, "self").v}), call.dtype("self"));
  };
}

// binomial(Tensor count, Tensor prob, Generator? generator=None)
void binomial(Call& call) {
  require_floating(call, "count");
  require_floating(call, "prob");
  Expr count = parameter(call, "count"), p = parameter(call, "prob");
  Shape shape = aspen::broadcast_shapes(count.shape(), p.shape(), "binomial");
  give(call, draw(call, "random_binomial", {broadcast(count, shape).v, broadcast(p, shape).v}), call.dtype("count"));
}

// multinomial(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None): weights (C) or
// (N, C)
void multinomial(Call& call) {
  require_floating(call, "self");
  Expr weights = parameter(call, "self");
  if (weights.rank() != 1 && weights.rank() != 2) {
    throw UserError("[multinomial] takes weights of shape [C] or [N, C], not {}.", to_string(weights.shape()));
  }
  aspen::MultinomialAttrs attrs{call.integer("num_samples"), call.boolean("replacement"), call.new_stream()};
  call.result(call.b.make("random_multinomial", {weights.v}, attrs), ScalarType::Long);
}

// _standard_gamma_grad(Tensor self, Tensor output): d output / d self
void standard_gamma_grad(Call& call) {
  Expr alpha = parameter(call, "self"), z = parameter(call, "output");
  give(call, expr(call, call.b.make("gamma_sample_grad", {alpha.v, z.v})), call.dtype("self"));
}

// _dirichlet_grad(Tensor x, Tensor alpha, Tensor total): (d x / d alpha) / (1 - x) of x ~ Beta(alpha, total - alpha)
void dirichlet_grad(Call& call) {
  Expr x = parameter(call, "x"), alpha = parameter(call, "alpha"), total = parameter(call, "total");
  give(call, expr(call, call.b.make("beta_sample_grad", {x.v, alpha.v, total.v})), call.dtype("x"));
}

}  // namespace

void register_distributions(HandlerTable& table) {
  table.add("aten::_standard_gamma", by_self("random_gamma"));
  table.add("aten::_sample_dirichlet", by_self("random_dirichlet"));
  table.add("aten::poisson", by_self("random_poisson"));
  table.add("aten::binomial", binomial);
  table.add("aten::multinomial", multinomial);
  table.add("aten::_standard_gamma_grad", standard_gamma_grad);
  table.add("aten::_dirichlet_grad", dirichlet_grad);
}

}  // namespace poptorch
