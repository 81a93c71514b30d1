// LossScaler: the factor on the loss that keeps half gradients in range, for the pass insert_optimizer. Fixed, it is
// the setting kLossScaling; automatic, a factor of the device's own multiplies the setting:
//
//   variable %lossScaleUpdateFactor: f32[] optimizer_state initial 1
//   %finalLossScale = mul(kLossScaling of %settings___0, %lossScaleUpdateFactor)
//   %0 = gradient_statistics(%g)                          of each gradient, beside the op that makes it
//   %1 = loss_scale_update(%lossScaleUpdateFactor, ...)   after the last
//   assign(%lossScaleUpdateFactor, %1)
//
// Where updates have a section of their own, the counts of each stage are kept in a variable GradientStatistics___<i>
// meanwhile, and added up over micro-batches and replicas like gradients.
#pragma once

#include <vector>

#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/builder.h"

namespace aspen {

class LossScaler {
 public:
  // settings: of the first group. section: of the update.
  LossScaler(Graph& graph, const CompileOptions& options, Variable* settings, Section section);

  bool scales() const { return is_automatic() || options_.optimizer.scales_loss; }
  bool is_automatic() const { return options_.automatic_loss_scaling.has_value(); }

  // Multiplies the seed of the backward pass.
  void scale_seed();
  // What gradients have to be divided by, read where `b` stands.
  Value* scale(Builder& b) const;
  // Automatic scaling: counts large gradients and adjusts the factor, on the device of `home`. Gradients are those of
  // the graph as it is: before scale_seed.
  void adjust(const Op& home);
  // Automatic scaling: whether all of a gradient is finite, so that it may be used; nullptr: it is used in any case.
  Value* is_usable(Builder& b, Value* gradient) const;

 private:
  struct Group;  // gradients of one stage

  Value* setting(Builder& b) const;
  std::vector<Group> find_gradients() const;
  Value* count(const Group& group);
  Value* kept_count(Value* statistics, std::size_t number);

  Graph& graph_;
  Builder b_;
  const CompileOptions& options_;
  Variable* settings_;
  Section section_;
  Variable* factor_ = nullptr;
};

}  // namespace aspen
