// Transposes that scatter their rows, as planes turned in registers; what copies whole rows runs on the reference.
#include "aspen/ops/shape/shape.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"

#define ASPEN_ISA_FILE "aspen/ops/shape/shape_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

struct Axis {
  std::int64_t extent, from;  // along the output; stride in the input
};

// Axes of the output, neighbours that walk the input as one merged, those of extent 1 dropped.
std::vector<Axis> merged_axes(const Shape& x, const std::vector<std::int64_t>& permutation) {
  std::vector<std::int64_t> strides = contiguous_strides(x);
  std::vector<Axis> axes;
  for (std::int64_t p : permutation) {
    if (x[p] == 1) continue;
    if (!axes.empty() && axes.back().from == strides[p] * x[p]) {
      axes.back() = {axes.back().extent * x[p], strides[p]};
    } else {
      axes.push_back({x[p], strides[p]});
    }
  }
  return axes;
}

// The plane that is turned: the last axis of the output, and the axis along which the input is contiguous. The walk
// over all others gives where each plane starts.
struct TurnPlan {
  std::int64_t rows, columns, from_stride, to_stride;  // rows of the input, `columns` long
  StridedRows<2> others;
};

TurnPlan turn_plan(const std::vector<Axis>& axes) {
  std::vector<std::int64_t> to(axes.size(), 1);
  for (std::size_t i = axes.size(); i-- > 1;) to[i - 1] = to[i] * axes[i].extent;
  std::size_t along = 0;
  while (axes[along].from != 1) ++along;
  Shape extents;
  std::array<std::vector<std::int64_t>, 2> strides;
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
    if (i == along) continue;
    extents.push_back(axes[i].extent);
    strides[0].push_back(axes[i].from);
    strides[1].push_back(to[i]);
  }
  return {axes.back().extent, axes[along].extent, axes.back().from, to[along], StridedRows<2>(extents, strides)};
}

std::unique_ptr<Kernel> make_transpose(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  std::vector<Axis> axes = merged_axes(x.shape, request.attrs.as<TransposeAttrs>().permutation);
  if (size_of(x.dtype) != sizeof(float) || x.numel() == 0 || axes.size() < 2 || axes.back().from == 1) {
    why = "transpose: not a plane of four-byte elements to turn";
    return nullptr;
  }
  TurnPlan plan = turn_plan(axes);
  double cost = kMoveCost * static_cast<double>(x.numel());
  bool whole_planes = plan.others.size() >= 2 * worthwhile_parts(cost);
  Chunks chunks = whole_planes ? cut(plan.others.size(), cost) : cut(plan.columns, cost, {.multiple = 16});
  return make_kernel([plan, chunks, whole_planes](const KernelArgs& args) {
    auto* from = static_cast<const float*>(args.inputs[0]);
    auto* to = static_cast<float*>(args.outputs[0]);
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      Chunk planes = whole_planes ? chunk : Chunk{0, 0, plan.others.size()};
      Chunk columns = whole_planes ? Chunk{0, 0, plan.columns} : chunk;
      plan.others.for_each_element_in(planes.begin, planes.end, [&](std::int64_t, const auto& offsets) {
        ASPEN_BEST(transpose_plane)
        (from + offsets[0] + columns.begin, plan.from_stride, plan.rows, columns.size(),
         to + offsets[1] + columns.begin * plan.to_stride, plan.to_stride);
      });
    });
  });
}

}  // namespace

void register_shape_cpu(KernelRegistry& kernels) { kernels.add("transpose", make_transpose); }

}  // namespace aspen
