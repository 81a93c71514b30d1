// What the chunks of a loss leave in the workspace, and how they meet: sums in their order, and so do mistakes, of
// which the first is told. Called by the kernels of nll and cross_entropy.
#pragma once

#include <string>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/ops/nll/targets.h"

namespace aspen {

inline constexpr std::int64_t kNoTarget = -1;

struct PartialLoss {
  double sum, total;
  std::int64_t wrong;  // its first wrong target, or kNoTarget
};

// What a loss does with targets.
struct TargetPlan {
  NllLayout layout;
  std::int64_t ignored;
  bool none, mean;  // the reduction
  std::string op;

  TargetPlan(const std::string& name, const NllAttrs& attrs, const Shape& x)
      : layout(x), ignored(attrs.ignore_index), none(attrs.reduction == "none"), mean(attrs.reduction == "mean"),
        op(name) {}

  bool is_wrong(std::int64_t target) const { return target < 0 || target >= layout.classes; }

  void check(const PartialLoss* parts, std::int64_t count, const std::int32_t* target) const {
    for (std::int64_t c = 0; c < count; ++c) {
      if (parts[c].wrong != kNoTarget) fail_target(op, layout, parts[c].wrong, target[parts[c].wrong], ignored);
    }
  }

  // The total weight, and the loss if it is one number.
  void finish(const PartialLoss* parts, std::int64_t count, float* loss, float* total_weight) const {
    double sum = 0, total = 0;
    for (std::int64_t c = 0; c < count; ++c) {
      sum += parts[c].sum;
      total += parts[c].total;
    }
    if (!none) *loss = static_cast<float>(!mean ? sum : total == 0 ? 0 : sum / total);
    *total_weight = static_cast<float>(total);
  }
};

void register_cross_entropy_cpu(KernelRegistry& kernels);

}  // namespace aspen
