#include "aspen/ops/softmax/softmax.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/api/strided_rows.h"

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

// The exponentials of a line, or a top and a sum for each line beside another.
std::size_t scratch_bytes(const AxisLines& lines) {
  std::int64_t floats = lines.inner == 1 ? lines.size : 2 * lines.inner;
  return static_cast<std::size_t>(floats) * sizeof(float);
}

template <bool kLog>
std::unique_ptr<Kernel> make_softmax(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  AxisLines lines = lines_of(request);
  return make_kernel(
      [lines](const KernelArgs& args) {
        ASPEN_BEST(softmax<kLog>)
        (lines, static_cast<const float*>(args.inputs[0]), static_cast<float*>(args.outputs[0]),
         static_cast<float*>(args.workspace));
      },
      scratch_bytes(lines));
}

template <bool kLog>
std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  AxisLines lines = lines_of(request);
  return make_kernel(
      [lines](const KernelArgs& args) {
        ASPEN_BEST(softmax_grad<kLog>)
        (lines, static_cast<const float*>(args.inputs[0]), static_cast<const float*>(args.inputs[1]),
         static_cast<float*>(args.outputs[0]), static_cast<float*>(args.workspace));
      },
      scratch_bytes(lines));
}

}  // namespace

void register_softmax_cpu(KernelRegistry& kernels) {
  kernels.add("softmax", make_softmax<false>);
  kernels.add("log_softmax", make_softmax<true>);
  kernels.add("softmax_grad", make_softmax_grad<false>);
  kernels.add("log_softmax_grad", make_softmax_grad<true>);
}

}  // namespace aspen
