// Forward elements are copied in runs. The gradient adds up one axis at a time; half goes through float.
#include "aspen/ops/remap/remap.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/mapped_copy.h"
#include "aspen/backends/cpu/separable_map.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/ops/remap/places.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_remap(const KernelRequest& request, std::string&) {
  const TensorType& x = request.inputs[0].type;
  const std::byte zero[8] = {};
  MappedCopy copy(size_of(x.dtype), x.shape, remap_places(request.attrs.as<RemapAttrs>(), x.shape), zero);
  return make_kernel([copy](const KernelArgs& args) { copy.run(args, args.inputs[0], args.outputs[0]); });
}

// The elements of an axis of x from those of the gradient. Few runs make windows that move with them.
MapAxis gradient_axis(const AxisPlaces& places, std::int64_t size, std::int64_t runs) {
  constexpr std::int64_t kFewRuns = 16;
  MapAxis axis{TapLists(static_cast<std::size_t>(size)), std::ssize(places), runs <= kFewRuns ? 1 : 0};
  for (std::int64_t i = 0; i < std::ssize(places); ++i) {
    if (places[i] >= 0) axis.taps[places[i]].push_back({i, 1.0f});
  }
  return axis;
}

std::unique_ptr<Kernel> make_remap_grad(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.outputs[0];
  const auto& attrs = request.attrs.as<RemapAttrs>();
  if (x.dtype != DType::kF32 || x.numel() == 0 || request.inputs[0].type.numel() == 0) {
    why = fmt::format("remap_grad: the vector loops take f32 with at least one element, not {}", to_string(x));
    return nullptr;
  }
  std::vector<AxisPlaces> places = remap_places(attrs, x.shape);
  std::vector<std::int64_t> runs(x.shape.size(), 0);
  for (std::size_t r = 0; r < attrs.runs.size(); r += 4) ++runs[attrs.runs[r]];
  std::int64_t planes = 1;
  std::vector<MapAxis> mapped;
  for (std::size_t a = 0; a < x.shape.size(); ++a) {
    if (runs[a] > 0) {
      mapped.push_back(gradient_axis(places[a], x.shape[a], runs[a]));
    } else if (mapped.empty()) {
      planes *= x.shape[a];
    } else if (mapped.back().kept) {
      mapped.back().inputs *= x.shape[a];
    } else {
      mapped.push_back(kept_axis(x.shape[a]));
    }
  }
  if (mapped.size() > 3) {
    why = fmt::format("remap_grad: the axes of {} that change are too far apart", to_string(x));
    return nullptr;
  }
  MapAxis axes[3];
  std::move(mapped.begin(), mapped.end(), axes + 3 - mapped.size());
  return make_map_kernel(SeparableMap(planes, axes));
}

}  // namespace

void register_remap_cpu(KernelRegistry& kernels) {
  kernels.add("remap", make_remap);
  add_with_half(kernels, "remap_grad", make_remap_grad);
}

}  // namespace aspen
