#include "aspen/ops/loss_scale/loss_scale.h"

#include <cmath>

#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

void gradient_statistics(const KernelCall& call) {
  const double edge = call.attrs<GradientStatisticsAttrs>().edge;
  std::int64_t large = 0, infinite = 0;
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* g = call.in<T>(0);
    for (std::int64_t i = 0, n = call.in_type(0).numel(); i < n; ++i) {
      auto size = std::abs(static_cast<double>(g[i]));
      large += size <= edge ? 0 : 1;  // NaN too
      infinite += std::isfinite(size) ? 0 : 1;
    }
  });
  call.out<float>(0)[0] = static_cast<float>(large);
  call.out<float>(0)[1] = static_cast<float>(infinite);
}

void loss_scale_update(const KernelCall& call) {
  const auto& attrs = call.attrs<LossScaleUpdateAttrs>();
  float factor = *call.in<float>(0), scaling = *call.in<float>(1);
  double large = static_cast<double>(*call.in<float>(2)) / attrs.total;
  auto updates = static_cast<std::int64_t>(*call.in<float>(3)) + 1;
  float next = large > attrs.threshold ? factor / 2 : factor * 2;
  double scale = static_cast<double>(scaling) * static_cast<double>(next);
  bool stays = updates % attrs.period != 0 || (next > factor ? scale > attrs.largest : scale < attrs.least);
  *call.out<float>(0) = stays ? factor : next;
}

}  // namespace

void register_loss_scale_ref(KernelRegistry& kernels) {
  kernels.add("gradient_statistics", gradient_statistics);
  kernels.add("loss_scale_update", loss_scale_update);
}

}  // namespace aspen
