#include "aspen/ops/softmax/softmax.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/row_tiles.h"
#include "aspen/backends/cpu/widened.h"

namespace aspen {
namespace {

// The lines of one thread.
struct LinesPart {
  Chunk outer, inner;
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/softmax/softmax_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

bool declines(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  if (x.dtype == DType::kF32) return false;
  why = fmt::format("{}: the vector loops take f32, not {}", request.op, to_string(x));
  return true;
}

AxisLines lines_of(const KernelRequest& request) {
  return AxisLines(request.inputs[0].type.shape, request.attrs.as<SoftmaxAttrs>().axis, request.op.c_str());
}

// Lines cut for several threads: along the outer axes, or, where these are short, among the lines beside each other.
// Each part has scratch memory for the exponentials of a line, or a top and a sum for each line beside another.
class LineParts {
 public:
  explicit LineParts(const AxisLines& lines) : lines_(lines) {
    double cost = kMathCost * static_cast<double>(lines.outer * lines.size * lines.inner);
    cuts_outer_ = lines.inner == 1 || lines.outer >= 2 * worthwhile_parts(cost);
    chunks_ = cuts_outer_ ? cut(lines.outer, cost) : cut(lines.inner, cost, {.multiple = 64});
    std::int64_t beside = cuts_outer_ ? lines.inner : chunks_.size();
    floats_ = (lines.inner == 1 ? lines.size : 2 * beside) + 16;  // neighbours on cache lines of their own
  }

  std::size_t scratch_bytes() const { return static_cast<std::size_t>(chunks_.count() * floats_) * sizeof(float); }

  template <class F>
  void for_each(const KernelArgs& args, F&& compute) const {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      float* scratch = static_cast<float*>(args.workspace) + chunk.index * floats_;
      if (cuts_outer_) {
        compute(LinesPart{chunk, {0, 0, lines_.inner}}, scratch);
      } else {
        compute(LinesPart{{0, 0, lines_.outer}, chunk}, scratch);
      }
    });
  }

 private:
  AxisLines lines_;
  bool cuts_outer_ = true;
  Chunks chunks_;
  std::int64_t floats_ = 0;
};

template <bool kLog>
std::unique_ptr<Kernel> make_softmax(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  AxisLines lines = lines_of(request);
  LineParts parts(lines);
  return make_kernel(
      [lines, parts](const KernelArgs& args) {
        parts.for_each(args, [&](const LinesPart& part, float* scratch) {
          ASPEN_BEST(softmax<kLog>)
          (lines, part, static_cast<const float*>(args.inputs[0]), static_cast<float*>(args.outputs[0]), scratch);
        });
      },
      parts.scratch_bytes());
}

template <bool kLog>
std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  AxisLines lines = lines_of(request);
  LineParts parts(lines);
  return make_kernel(
      [lines, parts](const KernelArgs& args) {
        parts.for_each(args, [&](const LinesPart& part, float* scratch) {
          ASPEN_BEST(softmax_grad<kLog>)
          (lines, part, static_cast<const float*>(args.inputs[0]), static_cast<const float*>(args.inputs[1]),
           static_cast<float*>(args.outputs[0]), scratch);
        });
      },
      parts.scratch_bytes());
}

}  // namespace

void register_softmax_cpu(KernelRegistry& kernels) {
  auto axes_before = [](const KernelRequest& request) {
    return normalize_axis(request.attrs.as<SoftmaxAttrs>().axis, request.outputs[0].shape, "softmax");
  };
  auto add = [&](const char* op, const KernelFactory& make_float) {
    kernels.add(op, make_float);
    kernels.add(op, by_row_tiles(widened(make_float), axes_before));
    kernels.add(op, widened(make_float));
  };
  add("softmax", make_softmax<false>);
  add("log_softmax", make_softmax<true>);
  add("softmax_grad", make_softmax_grad<false>);
  add("log_softmax_grad", make_softmax_grad<true>);
}

}  // namespace aspen
