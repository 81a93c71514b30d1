// Attributes of the ops that update parameters, and the layout of the numbers they are steered by.
//
// Every update is <kind>(w, g, settings, step, states...) -> (new w, new states...): output 0 replaces input 0, output
// 1 + i replaces states[i]. g is the gradient, already divided by the loss scaling; settings is f32[kNumSettings];
// step, f32[], counts the updates done before this one. All states start at 0 but where said otherwise.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// The numbers of a parameter group; the host may change them between runs.
enum Setting : std::size_t {
  kLearningRate,
  kWeightDecay,
  kMomentum,   // or beta1, or RMSprop's momentum
  kDampening,  // or beta2, or alpha
  kEpsilon,
  kLossScaling,  // the seed of the backward pass is multiplied by it, gradients divided
  kMaxWeightNorm,
  kNumSettings,
};

// sgd: states are the velocity with momentum, none without. The first update sets velocity = gradient.
struct SgdAttrs {
  bool momentum = false;
  bool nesterov = false;

  void visit(AttrVisitor& v) {
    v("momentum", momentum);
    v("nesterov", nesterov);
  }
};

// adam: states are the running means of the gradient and of its square.
struct AdamAttrs {
  bool decoupled = false;  // AdamW: the decay shrinks the weight and stays out of the means
  bool bias_correction = true;

  void visit(AttrVisitor& v) {
    v("decoupled", decoupled);
    v("bias_correction", bias_correction);
  }
};

// rmsprop: states are the running mean of the squared gradient, then that of the gradient if centered, then the
// velocity if it has momentum.
struct RmspropAttrs {
  bool momentum = false;
  bool centered = false;
  // As TensorFlow does: the mean of squares starts at 1, epsilon goes under the root, the learning rate into the
  // velocity.
  bool tf_variant = false;

  void visit(AttrVisitor& v) {
    v("momentum", momentum);
    v("centered", centered);
    v("tf_variant", tf_variant);
  }
};

// lamb: states as adam; the step is scaled by min(|w|, max weight norm) / |update|.
struct LambAttrs {
  bool bias_correction = true;

  void visit(AttrVisitor& v) { v("bias_correction", bias_correction); }
};

// lamb_norms(w, g, settings, step, states...) of a replica's own shards: f64[2], the sums of the squares of the weights
// and of the update that lamb would make. lamb_step(..., norms) is lamb for these shards, given the sums over all
// replicas.
struct LambNormsAttrs {
  bool bias_correction = true;
  std::int64_t numel = 0;  // of the whole tensor: the last shards end with padding
  std::int64_t replicas = 1;

  void visit(AttrVisitor& v) {
    v("bias_correction", bias_correction);
    v("numel", numel);
    v("replicas", replicas);
  }
};

// clip_scale(norm_squared f32[]): min(1, max_norm / (norm + 1e-6)), what gradients of that norm are multiplied by.
// Its input is the sum of square_sum(g) over all gradients.
struct ClipScaleAttrs {
  double max_norm = 0;

  void visit(AttrVisitor& v) { v("max_norm", max_norm); }
};

}  // namespace aspen
