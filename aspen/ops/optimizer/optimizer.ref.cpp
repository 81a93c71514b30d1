// The operations and their order are those of torch.optim's single-tensor loops, where `a.add(b, alpha=c)` is one
// fused multiply-add in float; numbers derived from settings are formed in double, as Python does.
#include "aspen/ops/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "aspen/backends/api/kernel.h"
#include "aspen/backends/api/strided_rows.h"
#include "aspen/base/replica_grouping.h"
#include "aspen/ops/optimizer/optimizer.ref.h"
#include "aspen/ops/optimizer/settings.h"

namespace aspen {
namespace {

// Updates done before this one.
double steps_before(const KernelCall& call) { return static_cast<double>(*call.in<float>(3)); }

float read(DType type, const void* data, std::int64_t i) {
  if (type == DType::kF16) return static_cast<float>(static_cast<const Half*>(data)[i]);
  if (type == DType::kBF16) return static_cast<float>(static_cast<const BFloat16*>(data)[i]);
  return static_cast<const float*>(data)[i];
}

// A tensor of f32, f16 or bf16 read and written as float.
class Reader {
 public:
  Reader(const KernelCall& call, std::size_t input) : data_(call.in<void>(input)), type_(call.in_type(input).dtype) {}
  float operator[](std::int64_t i) const { return read(type_, data_, i); }

 private:
  const void* data_;
  DType type_;
};

class Writer {
 public:
  Writer(const KernelCall& call, std::size_t output)
      : data_(call.out<void>(output)), type_(call.out_type(output).dtype) {}
  void set(std::int64_t i, float value) const {
    if (type_ == DType::kF16) {
      static_cast<Half*>(data_)[i] = static_cast<Half>(value);
    } else if (type_ == DType::kBF16) {
      static_cast<BFloat16*>(data_)[i] = BFloat16(value);
    } else {
      static_cast<float*>(data_)[i] = value;
    }
  }

 private:
  void* data_;
  DType type_;
};

// A state before and after the update; the two may share their memory.
struct State {
  State(const KernelCall& call, std::size_t i) : before(call, 4 + i), after(call, 1 + i) {}
  Reader before;
  Writer after;
};

}  // namespace

void update_by_sgd(const KernelCall& call) {
  const auto& attrs = call.attrs<SgdAttrs>();
  Settings settings(call.in<float>(2));
  Reader w(call, 0), g(call, 1);
  Writer out(call, 0);
  auto minus_lr = static_cast<float>(-settings[kLearningRate]), decay = static_cast<float>(settings[kWeightDecay]);
  auto momentum = static_cast<float>(settings[kMomentum]), taken = static_cast<float>(1 - settings[kDampening]);
  auto rows = broadcast_rows<1>(call.in_type(0).shape, {&call.in_type(1).shape});
  rows.for_each_element_in(0, rows.size(), [&](std::int64_t i, const auto& offsets) {
    float weight = w[i], gradient = g[offsets[0]], d = decay != 0 ? std::fma(weight, decay, gradient) : gradient;
    if (attrs.momentum) {
      State velocity(call, 0);
      float v = velocity.before[i];
      if (momentum != 0) {  // torch leaves the velocity alone where a group's momentum is 0
        v = steps_before(call) == 0 ? d : std::fma(d, taken, v * momentum);
        d = attrs.nesterov ? std::fma(v, momentum, d) : v;
      }
      velocity.after.set(i, v);
    }
    out.set(i, std::fma(d, minus_lr, weight));
  });
}

namespace {

// Running means of the gradient and of its square.
struct Moments {
  explicit Moments(const KernelCall& call, const Settings& settings, bool bias_correction)
      : first(call, 0), second(call, 1), beta1(static_cast<float>(settings[kMomentum])),
        beta2(static_cast<float>(settings[kDampening])), taken1(static_cast<float>(1 - settings[kMomentum])),
        taken2(static_cast<float>(1 - settings[kDampening])) {
    if (!bias_correction) return;
    correction1 = 1 - std::pow(settings[kMomentum], steps_before(call) + 1);
    correction2 = 1 - std::pow(settings[kDampening], steps_before(call) + 1);
  }
  float first_at(std::int64_t i, float g) const { return std::fma(g, taken1, first.before[i] * beta1); }
  float second_at(std::int64_t i, float g) const { return std::fma(taken2 * g, g, second.before[i] * beta2); }

  State first, second;
  float beta1, beta2, taken1, taken2;
  double correction1 = 1, correction2 = 1;
};

}  // namespace

void update_by_adam(const KernelCall& call) {
  const auto& attrs = call.attrs<AdamAttrs>();
  Settings settings(call.in<float>(2));
  Moments moments(call, settings, attrs.bias_correction);
  Reader w(call, 0), gradient(call, 1);
  Writer out(call, 0);
  double lr = settings[kLearningRate], decay = settings[kWeightDecay];
  auto kept = static_cast<float>(1 - lr * decay), added = static_cast<float>(decay);
  auto minus_step = static_cast<float>(-(lr / moments.correction1));
  auto root_correction = static_cast<float>(std::sqrt(moments.correction2));
  auto epsilon = static_cast<float>(settings[kEpsilon]);
  auto n = call.out_type(0).numel();
  for (std::int64_t i = 0; i < n; ++i) {
    float weight = w[i], g = gradient[i];
    if (attrs.decoupled) {
      weight *= kept;
    } else if (decay != 0) {
      g = std::fma(weight, added, g);
    }
    float m = moments.first_at(i, g), v = moments.second_at(i, g);
    float denominator = std::sqrt(v) / root_correction + epsilon;
    moments.first.after.set(i, m);
    moments.second.after.set(i, v);
    out.set(i, weight + minus_step * m / denominator);
  }
}

namespace {

void rmsprop(const KernelCall& call) {
  const auto& attrs = call.attrs<RmspropAttrs>();
  Settings settings(call.in<float>(2));
  Reader w(call, 0), gradient(call, 1);
  Writer out(call, 0);
  State square(call, 0);
  auto lr = static_cast<float>(settings[kLearningRate]), decay = static_cast<float>(settings[kWeightDecay]);
  auto momentum = static_cast<float>(settings[kMomentum]), epsilon = static_cast<float>(settings[kEpsilon]);
  auto alpha = static_cast<float>(settings[kDampening]), taken = static_cast<float>(1 - settings[kDampening]);
  auto n = call.out_type(0).numel();
  for (std::int64_t i = 0; i < n; ++i) {
    float weight = w[i], g = decay != 0 ? std::fma(weight, decay, gradient[i]) : gradient[i];
    float mean_square = std::fma(taken * g, g, square.before[i] * alpha), variance = mean_square;
    if (attrs.centered) {
      State mean(call, 1);
      float m = std::fma(g, taken, mean.before[i] * alpha);
      variance = std::fma(-m, m, mean_square);
      mean.after.set(i, m);
    }
    float root = attrs.tf_variant ? std::sqrt(variance + epsilon) : std::sqrt(variance) + epsilon;
    square.after.set(i, mean_square);
    if (!attrs.momentum) {
      out.set(i, weight + -lr * g / root);
      continue;
    }
    State velocity(call, attrs.centered ? 2 : 1);
    float v = velocity.before[i] * momentum + (attrs.tf_variant ? lr * g : g) / root;
    velocity.after.set(i, v);
    out.set(i, attrs.tf_variant ? weight - v : std::fma(v, -lr, weight));
  }
}

// The update of one element by LAMB, before it is scaled, and the means it is made of.
class LambUpdate {
 public:
  LambUpdate(const KernelCall& call, bool bias_correction)
      : settings_(call.in<float>(2)), first_(call, 4), second_(call, 5), w_(call, 0), gradient_(call, 1) {
    if (bias_correction) {
      correction1_ = static_cast<float>(1 - std::pow(settings_[kMomentum], steps_before(call) + 1));
      root_correction_ = static_cast<float>(std::sqrt(1 - std::pow(settings_[kDampening], steps_before(call) + 1)));
    }
    // What is stored is divided by: in half it must not have become 0.
    if (call.in_type(5).dtype == DType::kF16) least_ = 0x1p-24f;
  }

  float weight(std::int64_t i) const { return w_[i]; }
  float first(std::int64_t i) const { return std::fma(gradient_[i], taken1_, first_[i] * beta1_); }
  float second(std::int64_t i) const {
    float g = gradient_[i];
    return std::max(std::fma(taken2_ * g, g, second_[i] * beta2_), least_);
  }
  float update(float m, float v, float weight) const {
    return std::fma(weight, decay_, m / correction1_ / (std::sqrt(v) / root_correction_ + epsilon_));
  }

  // -lr * min(|w|, max weight norm) / |update| from the squared norms of both.
  float minus_step(double weight_norm, double update_norm) const {
    weight_norm = std::min(std::sqrt(weight_norm), settings_[kMaxWeightNorm]);
    update_norm = std::sqrt(update_norm);
    double ratio = weight_norm > 0 && update_norm > 0 ? weight_norm / update_norm : 1;
    return static_cast<float>(-settings_[kLearningRate] * ratio);
  }

 private:
  Settings settings_;
  Reader first_, second_, w_, gradient_;
  float beta1_ = static_cast<float>(settings_[kMomentum]), beta2_ = static_cast<float>(settings_[kDampening]);
  float taken1_ = static_cast<float>(1 - settings_[kMomentum]), taken2_ = static_cast<float>(1 - settings_[kDampening]);
  float decay_ = static_cast<float>(settings_[kWeightDecay]), epsilon_ = static_cast<float>(settings_[kEpsilon]);
  float correction1_ = 1, root_correction_ = 1, least_ = 0;
};

// Adds up the squares of `count` weights and updates.
void add_squares(const LambUpdate& lamb, std::int64_t count, double& weight_norm, double& update_norm) {
  for (std::int64_t i = 0; i < count; ++i) {
    double weight = lamb.weight(i), u = lamb.update(lamb.first(i), lamb.second(i), lamb.weight(i));
    weight_norm += weight * weight;
    update_norm += u * u;
  }
}

// Updates in place, so nothing of an element is read once it is written. The update is that of the means as they are
// stored.
void apply(const KernelCall& call, const LambUpdate& lamb, float minus_step) {
  Writer out(call, 0), first(call, 1), second(call, 2);
  auto stored = [](const TensorType& type, float value) {
    if (type.dtype == DType::kF16) return static_cast<float>(static_cast<Half>(value));
    return type.dtype == DType::kBF16 ? static_cast<float>(BFloat16(value)) : value;
  };
  for (std::int64_t i = 0, n = call.out_type(0).numel(); i < n; ++i) {
    float weight = lamb.weight(i), m = lamb.first(i), v = lamb.second(i);
    first.set(i, m);
    second.set(i, v);
    float u = lamb.update(stored(call.out_type(1), m), stored(call.out_type(2), v), weight);
    out.set(i, std::fma(u, minus_step, weight));
  }
}

// Two passes: the length of the whole update must be known before any of it is applied.
void lamb(const KernelCall& call) {
  LambUpdate lamb(call, call.attrs<LambAttrs>().bias_correction);
  double weight_norm = 0, update_norm = 0;
  add_squares(lamb, call.out_type(0).numel(), weight_norm, update_norm);
  apply(call, lamb, lamb.minus_step(weight_norm, update_norm));
}

void lamb_norms(const KernelCall& call) {
  const auto& attrs = call.attrs<LambNormsAttrs>();
  auto [begin, end] =
      shard_of(attrs.numel, static_cast<std::size_t>(call.step().replica), static_cast<std::size_t>(attrs.replicas));
  auto* norms = call.out<double>(0);
  norms[0] = norms[1] = 0;
  add_squares(LambUpdate(call, attrs.bias_correction), end - begin, norms[0], norms[1]);
}

void lamb_step(const KernelCall& call) {
  LambUpdate lamb(call, call.attrs<LambAttrs>().bias_correction);
  const auto* norms = call.in<double>(6);
  apply(call, lamb, lamb.minus_step(norms[0], norms[1]));
}

void square_sum(const KernelCall& call) {
  Reader x(call, 0);
  double sum = 0;
  for (std::int64_t i = 0, n = call.in_type(0).numel(); i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  *call.out<float>(0) = static_cast<float>(sum);
}

void clip_scale(const KernelCall& call) {
  double norm = std::sqrt(static_cast<double>(*call.in<float>(0)));
  double scale = call.attrs<ClipScaleAttrs>().max_norm / (norm + 1e-6);
  *call.out<float>(0) = static_cast<float>(scale > 1 ? 1 : scale);  // NaN stays NaN
}

}  // namespace

void register_optimizer_ref(KernelRegistry& kernels) {
  kernels.add("sgd", update_by_sgd);
  kernels.add("adam", update_by_adam);
  kernels.add("rmsprop", rmsprop);
  kernels.add("lamb", lamb);
  kernels.add("lamb_norms", lamb_norms);
  kernels.add("lamb_step", lamb_step);
  kernels.add("square_sum", square_sum);
  kernels.add("clip_scale", clip_scale);
}

}  // namespace aspen
