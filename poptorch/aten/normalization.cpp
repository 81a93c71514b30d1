// Batch, layer, group and instance normalisation. Statistics are float32 even for half; weight and bias take the
// activation's type. The running statistics are written although the schemas do not say so; the statistics that the
// native_ forms return carry no gradient, except those of group_norm.
#include "aspen/ops/batch_norm/batch_norm.h"
#include "poptorch/aten/support/norms.h"

namespace poptorch {
namespace {

Shape channel_shape(const Expr& x) {
  Shape shape(x.shape().size(), 1);
  shape[1] = x.size(1);
  return shape;
}

// y * weight + bias, each reshaped; arguments left out are left out.
Expr affine(Call& call, Expr y, ScalarType type, const Shape& shape) {
  if (call.has("weight")) y = y * reshape(expr(call, operand(call, "weight", type)), shape);
  if (call.has("bias")) y = y + reshape(expr(call, operand(call, "bias", type)), shape);
  return y;
}

// running = (1 - momentum) * running + momentum * batch, with the unbiased variance over `count` elements. The
// biased one is recovered from rstd = (var + epsilon)^-1/2, which spares a pass over the input; what is lost is of
// the order of epsilon times the rounding of float32.
void update_running(Call& call, Expr batch_mean, Expr rstd, double count, const Axes& also_average) {
  double momentum = call.number("momentum");
  auto blend = [&](std::string_view argument, Expr batch) {
    Expr running = expr(call, call.value(argument));
    if (!also_average.empty()) batch = mean(batch, also_average, true);
    Expr current = reshape(cast(batch, running.dtype()), running.shape());
    call.write(argument, (running * (1 - momentum) + current * momentum).v);
  };
  blend("running_mean", detach(batch_mean));
  Expr spread = unary("reciprocal", detach(rstd * rstd)) - call.number("eps");
  blend("running_var", relu(spread) * (count / (count - 1)));
}

Axes all_but(const Expr& x, std::int64_t axis) {
  Axes axes = all_axes(x.shape());
  axes.erase(axes.begin() + axis);
  return axes;
}

// With the running statistics: y = x * scale + shift, one factor and one summand per channel.
Expr normalize_by_running(Call& call, Expr x) {
  Shape channels = channel_shape(x);
  auto per_channel = [&](std::string_view argument) {
    return reshape(in_float(expr(call, call.value(argument))), channels);
  };
  Expr scale = rsqrt(per_channel("running_var") + call.number("eps"));
  if (call.has("weight")) scale = scale * per_channel("weight");
  Expr shift = -(per_channel("running_mean") * scale);
  if (call.has("bias")) shift = shift + per_channel("bias");
  return cast(in_float(x) * scale + shift, x.dtype());
}

// With the statistics of the batch.
Normalized normalize_channels(Call& call, Expr x, ScalarType type) {
  auto per_channel = [&](std::string_view argument) -> Value* {
    if (!call.has(argument)) return nullptr;
    return reshape(expr(call, operand(call, argument, type)), channel_shape(x)).v;
  };
  Value *scale = per_channel("weight"), *shift = per_channel("bias");
  aspen::Op* op = x.b->emit("batch_norm", {x.v, scale, shift}, aspen::BatchNormAttrs{call.number("eps")});
  return {{x.b, op->output(0)}, {x.b, op->output(1)}, {x.b, op->output(2)}};
}

double count_over(const Expr& x, const Axes& axes) {
  double count = 1;
  for (auto axis : axes) count *= static_cast<double>(x.size(axis));
  return count;
}

// batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training,
// float momentum, float eps, bool cudnn_enabled)
// native_batch_norm(... same without the last ...) -> (Tensor, Tensor save_mean, Tensor save_invstd)
Handler batch_norm(bool with_statistics) {
  return [with_statistics](Call& call) {
    ScalarType type = call.dtype("input");
    Expr x = expr(call, call.value("input"));
    if (!call.boolean("training")) {
      call.result(normalize_by_running(call, x).v, type);
      if (!with_statistics) return;
      for (int i = 0; i < 2; ++i)
        call.result(full(call.b, DType::kF32, {0}, 0).v, ScalarType::Float);  // nothing is saved
      return;
    }
    Axes axes = all_but(x, 1);
    if (count_over(x, axes) == 1) {
      throw UserError(
          "[batch_norm] one value per channel in an input of shape {}: its variance is undefined while training.",
          to_string(x.shape()));
    }
    Normalized n = normalize_channels(call, x, type);
    if (call.has("running_mean")) update_running(call, n.mean, n.rstd, count_over(x, axes), {});
    call.result(n.y.v, type);
    if (!with_statistics) return;
    call.result(reshape(detach(n.mean), {x.size(1)}).v, ScalarType::Float);
    call.result(reshape(detach(n.rstd), {x.size(1)}).v, ScalarType::Float);
  };
}

// layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool
// cudnn_enable=True)
// native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> 3 tensors
Handler layer_norm(bool with_statistics) {
  return [with_statistics](Call& call) {
    ScalarType type = call.dtype("input");
    Expr x = expr(call, call.value("input"));
    Shape normalized = call.integers("normalized_shape");
    auto count = static_cast<std::int64_t>(normalized.size());
    if (count > x.rank() || !std::equal(normalized.begin(), normalized.end(), x.shape().end() - count)) {
      throw UserError("[layer_norm] normalized_shape {} does not match the last sizes of an input of shape {}.",
                      to_string(normalized), to_string(x.shape()));
    }
    Axes axes;
    for (std::int64_t axis = x.rank() - count; axis < x.rank(); ++axis) axes.push_back(axis);
    Normalized n = normalize(x, axes, call.number("eps"));
    call.result(affine(call, n.y, type, normalized).v, type);
    if (!with_statistics) return;
    call.result(cast(detach(n.mean), x.dtype()).v, type);
    call.result(cast(detach(n.rstd), x.dtype()).v, type);
  };
}

// x (N, C, ...) seen as (N, groups, C / groups, rest), normalised over the last two.
Normalized normalize_groups(Expr x, std::int64_t groups, double epsilon) {
  std::int64_t batch = x.size(0), channels = x.size(1);
  if (groups < 1 || channels % groups != 0) {
    throw UserError("[group_norm] {} channels do not split into {} groups.", channels, groups);
  }
  std::int64_t rest = x.numel() / std::max<std::int64_t>(batch * channels, 1);
  Expr grouped = reshape(x, {batch, groups, channels / groups * rest});
  Normalized n = normalize(grouped, {2}, epsilon);
  n.y = reshape(n.y, x.shape());
  return n;
}

// group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled)
void group_norm(Call& call) {
  ScalarType type = call.dtype("input");
  Expr x = expr(call, call.value("input"));
  Normalized n = normalize_groups(x, call.integer("num_groups"), call.number("eps"));
  call.result(affine(call, n.y, type, channel_shape(x)).v, type);
}

// native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps)
//   -> (Tensor, Tensor mean, Tensor rstd)
void native_group_norm(Call& call) {
  ScalarType type = call.dtype("input");
  Expr x = expr(call, call.value("input"));
  Expr flat = reshape(x, {call.integer("N"), call.integer("C"), call.integer("HxW")});
  Normalized n = normalize_groups(flat, call.integer("group"), call.number("eps"));
  call.result(reshape(affine(call, n.y, type, channel_shape(flat)), x.shape()).v, type);
  Shape groups{call.integer("N"), call.integer("group")};
  call.result(cast(reshape(n.mean, groups), x.dtype()).v, type);
  call.result(cast(reshape(n.rstd, groups), x.dtype()).v, type);
}

// instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool
// use_input_stats, float momentum, float eps, bool cudnn_enabled): the running statistics are averages over the batch
void instance_norm(Call& call) {
  ScalarType type = call.dtype("input");
  Expr x = expr(call, call.value("input"));
  if (!call.boolean("use_input_stats")) return call.result(normalize_by_running(call, x).v, type);
  Axes axes;
  for (std::int64_t axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  Normalized n = normalize(x, axes, call.number("eps"));
  if (call.has("running_mean")) update_running(call, n.mean, n.rstd, count_over(x, axes), {0});
  call.result(affine(call, n.y, type, channel_shape(x)).v, type);
}

// v * g / |v|, the norm over all axes but one; axis -1: over all.
Expr weight_norm_factor(Call& call, Expr v) {
  std::int64_t axis = call.integer("dim");
  Axes axes = axis == -1 ? all_axes(v.shape()) : all_but(v, axis_in(axis, v.shape(), "weight_norm"));
  return sqrt(sum(in_float(v) * in_float(v), axes, true));
}

// _weight_norm(Tensor v, Tensor g, int dim=0), _weight_norm_interface(...) -> (Tensor, Tensor norms)
Handler weight_norm(bool with_norms) {
  return [with_norms](Call& call) {
    Expr v = expr(call, call.value("v")), g = expr(call, call.value("g"));
    Expr norms = weight_norm_factor(call, v);
    Expr scale = (g.numel() == norms.numel() ? reshape(in_float(g), norms.shape()) : in_float(g)) / norms;
    call.result(cast(in_float(v) * scale, v.dtype()).v, call.dtype("v"));
    if (with_norms) call.result(reshape(norms, g.shape()).v, ScalarType::Float);
  };
}

}  // namespace

void register_normalization(HandlerTable& table) {
  table.add("aten::batch_norm", batch_norm(false));
  table.add("aten::native_batch_norm", batch_norm(true));
  table.add("aten::layer_norm", layer_norm(false));
  table.add("aten::native_layer_norm", layer_norm(true));
  table.add("aten::group_norm", group_norm);
  table.add("aten::native_group_norm", native_group_norm);
  table.add("aten::instance_norm", instance_norm);
  table.add("aten::_weight_norm", weight_norm(false));
  table.add("aten::_weight_norm_interface", weight_norm(true));
}

}  // namespace poptorch
