// Maximum pooling over one or two axes; the averages and three axes run on the reference, averages of half through
// float.
#include "aspen/ops/pool/pool.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/widened.h"

namespace aspen {
namespace {

struct PoolShape {
  std::int64_t planes = 0;
  std::int64_t height = 1, width = 1, out_height = 1, out_width = 1;
  std::int64_t kernel_y = 1, kernel_x = 1, stride_y = 1, stride_x = 1;
  std::int64_t pad_y = 0, pad_x = 0, dilation_y = 1, dilation_x = 1;
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/pool/pool_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request, std::string& why) {
  const Shape &x = request.inputs[0].type.shape, &y = request.outputs[0].shape;
  const auto& attrs = request.attrs.as<PoolAttrs>();
  if (request.inputs[0].type.dtype != DType::kF32 || x.size() > 4) {
    why = fmt::format("max_pool: the vector loops take f32 with one or two axes, not {}",
                      to_string(request.inputs[0].type));
    return nullptr;
  }
  PoolShape s{.planes = x[0] * x[1]};
  std::size_t last = x.size() - 1, axis = attrs.kernel.size() - 1;
  s.width = x[last];
  s.out_width = y[last];
  s.kernel_x = attrs.kernel[axis];
  s.stride_x = attrs.stride[axis];
  s.pad_x = attrs.padding[axis];
  s.dilation_x = attrs.dilation[axis];
  if (axis == 1) {
    s.height = x[2];
    s.out_height = y[2];
    s.kernel_y = attrs.kernel[0];
    s.stride_y = attrs.stride[0];
    s.pad_y = attrs.padding[0];
    s.dilation_y = attrs.dilation[0];
  }
  double taps = static_cast<double>(request.outputs[0].numel() * s.kernel_y * s.kernel_x);
  return make_kernel([s, chunks = cut(s.planes, kMoveCost * taps)](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      PoolShape part = s;
      part.planes = chunk.size();
      std::int64_t from = chunk.begin * s.height * s.width, to = chunk.begin * s.out_height * s.out_width;
      ASPEN_BEST(max_pool)
      (part, static_cast<const float*>(args.inputs[0]) + from, static_cast<float*>(args.outputs[0]) + to,
       static_cast<std::int32_t*>(args.outputs[1]) + to);
    });
  });
}

std::unique_ptr<Kernel> make_max_pool_grad(const KernelRequest& request, std::string& why) {
  const TensorType& g = request.inputs[0].type;
  if (g.dtype != DType::kF32) {
    why = fmt::format("max_pool_grad: the vector loop takes f32, not {}", to_string(g));
    return nullptr;
  }
  const Shape& x = request.outputs[0].shape;
  PoolShape s{.planes = x[0] * x[1], .width = x.back(), .out_width = g.shape.back()};
  for (std::size_t i = 2; i + 1 < x.size(); ++i) {
    s.height *= x[i];
    s.out_height *= g.shape[i];
  }
  Chunks chunks = cut(s.planes, kMoveCost * static_cast<double>(request.outputs[0].numel()));
  return make_kernel([s, chunks](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      PoolShape part = s;
      part.planes = chunk.size();
      std::int64_t from = chunk.begin * s.out_height * s.out_width, to = chunk.begin * s.height * s.width;
      auto* index = static_cast<const std::int32_t*>(args.inputs[1]) + from;
      std::int64_t bad = ASPEN_BEST(max_pool_grad)(part, static_cast<const float*>(args.inputs[0]) + from, index,
                                                   static_cast<float*>(args.outputs[0]) + to);
      if (bad >= 0) {
        throw UserError("[max_pool_grad] index {} at position {} is out of range for a plane of {} elements.",
                        index[bad], from + bad, s.height * s.width);
      }
    });
  });
}

}  // namespace

void register_pool_cpu(KernelRegistry& kernels) {
  add_with_half(kernels, "max_pool", make_max_pool);
  add_with_half(kernels, "max_pool_grad", make_max_pool_grad);
  for (const char* op : {"avg_pool", "avg_pool_grad", "adaptive_avg_pool", "adaptive_avg_pool_grad"}) {
    kernels.add(op, widened(make_reference_kernel));
  }
}

}  // namespace aspen
