#include "aspen/ops/cast/cast.h"

#include "aspen/backends/api/convert.h"
#include "aspen/backends/api/kernel.h"
#include "aspen/base/wide_integers.h"

namespace aspen {
namespace {

template <class From, class To>
void cast_row(const void* x, void* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) static_cast<To*>(y)[i] = convert<To>(static_cast<const From*>(x)[i]);
}

void cast(const KernelCall& call) {
  dispatch_stored(call.in_type(0).dtype, [&](auto from) {
    dispatch_stored(call.out_type(0).dtype, [&](auto to) {
      cast_row<typename decltype(from)::type, typename decltype(to)::type>(call.in<void>(0), call.out<void>(0),
                                                                           call.in_type(0).numel());
    });
  });
}

void narrow(const KernelCall& call) {
  const auto* x = call.in<std::int64_t>(0);
  auto* y = call.out<std::int32_t>(0);
  for (std::int64_t i = 0; i < call.in_type(0).numel(); ++i) {
    y[i] = static_cast<std::int32_t>(x[i]);
    if (y[i] != x[i]) fail_too_wide(x + i, 1, fmt::format("input \"{}\"", call.attrs<NarrowAttrs>().input));
  }
}

}  // namespace

void register_cast_ref(KernelRegistry& kernels) {
  kernels.add("cast", cast);
  kernels.add("narrow", narrow);
}

}  // namespace aspen
