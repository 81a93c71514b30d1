// Maximum pooling over one to three axes, and averages as sums along one axis at a time. Half goes through float.
#include "aspen/ops/pool/pool.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/separable_map.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/ops/pool/bins.ref.h"

namespace aspen {
namespace {

// One axis of the windows.
struct PoolAxis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
};

struct PoolShape {
  std::int64_t planes = 0;
  PoolAxis z, y, x;  // outermost first; those that are not there are the default

  std::int64_t in_count() const { return z.in * y.in * x.in; }
  std::int64_t out_count() const { return z.out * y.out * x.out; }
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/pool/pool_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

PoolShape pool_shape(const KernelRequest& request) {
  const Shape &x = request.inputs[0].type.shape, &y = request.outputs[0].shape;
  const auto& attrs = request.attrs.as<PoolAttrs>();
  PoolShape s{.planes = x[0] * x[1]};
  std::size_t a = attrs.kernel.size();
  for (PoolAxis* axis : {&s.x, &s.y, &s.z}) {
    if (a-- == 0) break;
    *axis = {x[a + 2], y[a + 2], attrs.kernel[a], attrs.stride[a], attrs.padding[a], attrs.dilation[a]};
  }
  return s;
}

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request, std::string& why) {
  if (request.inputs[0].type.dtype != DType::kF32) {
    why = fmt::format("max_pool: the vector loops take f32, not {}", to_string(request.inputs[0].type));
    return nullptr;
  }
  PoolShape s = pool_shape(request);
  double taps = static_cast<double>(request.outputs[0].numel() * s.z.kernel * s.y.kernel * s.x.kernel);
  return make_kernel([s, chunks = cut(s.planes, kMoveCost * taps)](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      PoolShape part = s;
      part.planes = chunk.size();
      std::int64_t from = chunk.begin * s.in_count(), to = chunk.begin * s.out_count();
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
  PoolShape s{.planes = x[0] * x[1]};
  s.x = {.in = x.back(), .out = g.shape.back()};
  for (std::size_t i = 2; i + 1 < x.size(); ++i) {
    s.y.in *= x[i];
    s.y.out *= g.shape[i];
  }
  Chunks chunks = cut(s.planes, kMoveCost * static_cast<double>(request.outputs[0].numel()));
  return make_kernel([s, chunks](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      PoolShape part = s;
      part.planes = chunk.size();
      std::int64_t from = chunk.begin * s.out_count(), to = chunk.begin * s.in_count();
      auto* index = static_cast<const std::int32_t*>(args.inputs[1]) + from;
      std::int64_t bad = ASPEN_BEST(max_pool_grad)(part, static_cast<const float*>(args.inputs[0]) + from, index,
                                                   static_cast<float*>(args.outputs[0]) + to);
      if (bad >= 0) {
        throw UserError("[max_pool_grad] index {} at position {} is out of range for a plane of {} elements.",
                        index[bad], from + bad, s.in_count());
      }
    });
  });
}

// -- averages ---------------------------------------------------------------------------------------------------

MapAxis sum_axis(const Bins& bins, std::int64_t in, std::int64_t step) {
  TapLists lists;
  for (const Bin& bin : bins) {
    auto& list = lists.emplace_back();
    for (std::int64_t i = bin.begin; i < bin.end; ++i) list.push_back({i, 1.0f});
  }
  return {std::move(lists), in, step};
}

// A window of padding alone has nothing to divide.
std::vector<float> lengths_of(const Bins& outer, const Bins& inner) {
  std::vector<float> lengths;
  for (const Bin& a : outer) {
    for (const Bin& b : inner) lengths.push_back(static_cast<float>(std::max<std::int64_t>(a.length * b.length, 1)));
  }
  return lengths;
}

// attrs is nullptr for adaptive windows.
std::unique_ptr<Kernel> make_average(const KernelRequest& request, const PoolAttrs* attrs, bool gradient,
                                     std::string& why) {
  if (request.outputs[0].dtype != DType::kF32) {
    why = fmt::format("{}: the vector loops take f32, not {}", request.op, to_string(request.outputs[0]));
    return nullptr;
  }
  const Shape& x = gradient ? request.outputs[0].shape : request.inputs[0].type.shape;
  const Shape& y = gradient ? request.inputs[0].type.shape : request.outputs[0].shape;
  MapAxis axes[3];
  Bins bins[3] = {{{0, 1, 1}}, {{0, 1, 1}}, {{0, 1, 1}}};
  for (std::size_t i = 2; i < x.size(); ++i) {
    std::size_t a = 3 - x.size() + i;
    bins[a] = attrs != nullptr ? window_bins(*attrs, i - 2, x[i], y[i]) : adaptive_bins(x[i], y[i]);
    std::int64_t adaptive_step = x[i] % y[i] == 0 ? x[i] / y[i] : 0;
    MapAxis axis = sum_axis(bins[a], x[i], attrs != nullptr ? attrs->stride[i - 2] : adaptive_step);
    axes[a] = gradient ? turned(axis) : axis;
  }
  Divisors divisors{gradient ? Divisors::Of::kInputs : Divisors::Of::kOutputs, lengths_of(bins[0], bins[1]),
                    lengths_of({{0, 1, 1}}, bins[2])};
  if (attrs != nullptr && attrs->divisor != 0) {
    std::fill(divisors.rows.begin(), divisors.rows.end(), 1.0f);
    std::fill(divisors.columns.begin(), divisors.columns.end(), static_cast<float>(attrs->divisor));
  }
  return make_map_kernel(SeparableMap(x[0] * x[1], axes, std::move(divisors)));
}

}  // namespace

void register_pool_cpu(KernelRegistry& kernels) {
  add_with_half(kernels, "max_pool", make_max_pool);
  add_with_half(kernels, "max_pool_grad", make_max_pool_grad);
  add_with_half(kernels, "avg_pool", [](const KernelRequest& request, std::string& why) {
    return make_average(request, &request.attrs.as<PoolAttrs>(), false, why);
  });
  add_with_half(kernels, "avg_pool_grad", [](const KernelRequest& request, std::string& why) {
    return make_average(request, &request.attrs.as<AvgPoolGradAttrs>().pool, true, why);
  });
  add_with_half(kernels, "adaptive_avg_pool", [](const KernelRequest& request, std::string& why) {
    return make_average(request, nullptr, false, why);
  });
  add_with_half(kernels, "adaptive_avg_pool_grad", [](const KernelRequest& request, std::string& why) {
    return make_average(request, nullptr, true, why);
  });
}

}  // namespace aspen
