#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/api/strided_rows.h"

namespace aspen {
namespace {

template <class T>
std::unique_ptr<Kernel> select_kernel(const KernelRequest& request) {
  const auto& in = request.inputs;
  auto rows = broadcast_rows<3>(request.outputs[0].shape, {&in[0].type.shape, &in[1].type.shape, &in[2].type.shape});
  return make_kernel([rows](const KernelArgs& args) {
    rows.for_each_row([&](std::int64_t first, const auto& offsets) {
      const bool* condition = static_cast<const bool*>(args.inputs[0]) + offsets[0];
      const T* x = static_cast<const T*>(args.inputs[1]) + offsets[1];
      const T* y = static_cast<const T*>(args.inputs[2]) + offsets[2];
      T* z = static_cast<T*>(args.outputs[0]) + first;
      auto [dc, dx, dy] = rows.strides();
      for (std::int64_t i = 0; i < rows.row_size(); ++i) z[i] = condition[i * dc] ? x[i * dx] : y[i * dy];
    });
  });
}

}  // namespace

void register_select_ref(KernelRegistry& kernels) {
  kernels.add("select", KernelFactory([](const KernelRequest& request, std::string&) {
                return dispatch_stored(request.outputs[0].dtype,
                                       [&](auto tag) { return select_kernel<typename decltype(tag)::type>(request); });
              }));
}

}  // namespace aspen
