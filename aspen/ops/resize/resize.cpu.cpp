// The taps of the reference, one axis at a time; the gradient's are the same turned round. Half goes through float.
#include "aspen/ops/resize/resize.h"

#include "aspen/backends/cpu/separable_map.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/ops/resize/taps.ref.h"

namespace aspen {
namespace {

MapAxis map_axis(const AxisTaps& axis) {
  TapLists lists(axis.num_outputs());
  for (std::size_t i = 0; i < axis.taps.size(); ++i) {
    lists[i / axis.per_output].push_back({axis.taps[i].index, axis.taps[i].weight});
  }
  return {std::move(lists), axis.in, 0};
}

KernelFactory resize_factory(bool gradient) {
  return [gradient](const KernelRequest& request, std::string& why) -> std::unique_ptr<Kernel> {
    if (request.outputs[0].dtype != DType::kF32) {
      why = fmt::format("{}: the vector loops take f32, not {}", request.op, to_string(request.outputs[0]));
      return nullptr;
    }
    const Shape& x = gradient ? request.outputs[0].shape : request.inputs[0].type.shape;
    MapAxis axes[3];
    for (std::size_t i = 2; i < x.size(); ++i) {
      MapAxis axis = map_axis(axis_taps(request.attrs.as<ResizeAttrs>(), i - 2, x[i]));
      axes[3 - x.size() + i] = gradient ? turned(axis) : axis;
    }
    return make_map_kernel(SeparableMap(x[0] * x[1], axes));
  };
}

}  // namespace

void register_resize_cpu(KernelRegistry& kernels) {
  add_with_half(kernels, "resize", resize_factory(false));
  add_with_half(kernels, "resize_grad", resize_factory(true));
}

}  // namespace aspen
