#include "aspen/ops/source/source.h"

#include <algorithm>

#include "aspen/backends/api/convert.h"
#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

void full(const KernelCall& call) {
  dispatch_stored(call.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::fill_n(call.out<T>(0), call.out_type(0).numel(), convert<T>(call.attrs<FullAttrs>().value));
  });
}

void iota(const KernelCall& call) {
  const auto& attrs = call.attrs<IotaAttrs>();
  dispatch_stored(call.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = call.out<T>(0);
    for (std::int64_t i = 0; i < attrs.size; ++i) {
      y[i] = convert<T>(attrs.start + static_cast<double>(i) * attrs.step);
    }
  });
}

void constant(const KernelCall& call) {
  const auto& data = call.attrs<ConstantAttrs>().data.bytes;
  if (data) std::copy(data->begin(), data->end(), call.out<std::byte>(0));
}

}  // namespace

void register_source_ref(KernelRegistry& kernels) {
  kernels.add("full", full);
  kernels.add("iota", iota);
  kernels.add("constant", constant);
}

}  // namespace aspen
