#include "aspen/ops/cast/cast.h"

#include "aspen/backends/api/convert.h"
#include "aspen/backends/api/kernel.h"

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

}  // namespace

void register_cast_ref(KernelRegistry& kernels) { kernels.add("cast", cast); }

}  // namespace aspen
