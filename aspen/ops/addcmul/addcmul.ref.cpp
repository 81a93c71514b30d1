#include "aspen/ops/addcmul/addcmul.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/api/strided_rows.h"

namespace aspen {
namespace {

template <class T>
std::unique_ptr<Kernel> addcmul(const KernelRequest& request) {
  using A = Accumulator<T>;
  const auto& in = request.inputs;
  auto rows = broadcast_rows<3>(request.outputs[0].shape, {&in[0].type.shape, &in[1].type.shape, &in[2].type.shape});
  return make_kernel([rows, scale = static_cast<A>(request.attrs.as<AddcmulAttrs>().scale)](const KernelArgs& args) {
    rows.for_each_row([&](std::int64_t first, const auto& offsets) {
      auto number = [&](std::size_t input, std::int64_t i) {
        return static_cast<A>(static_cast<const T*>(args.inputs[input])[offsets[input] + i * rows.strides()[input]]);
      };
      T* y = static_cast<T*>(args.outputs[0]) + first;
      for (std::int64_t i = 0; i < rows.row_size(); ++i) {
        y[i] = static_cast<T>(number(0, i) + scale * number(1, i) * number(2, i));
      }
    });
  });
}

}  // namespace

void register_addcmul_ref(KernelRegistry& kernels) {
  kernels.add("addcmul", KernelFactory([](const KernelRequest& request, std::string&) {
                return dispatch_floating(request.outputs[0].dtype,
                                         [&](auto tag) { return addcmul<typename decltype(tag)::type>(request); });
              }));
}

}  // namespace aspen
