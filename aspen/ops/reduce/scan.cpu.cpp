#include "aspen/ops/reduce/scan.cpu.h"

#include <string_view>
#include <type_traits>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/line_blocks.h"
#include "aspen/ops/reduce/reduce.h"

namespace aspen {
namespace {

struct ScanOrder {
  bool reverse = false, exclusive = false;
};

using ScanLoop = void (*)(const LineBlock& block, const ScanOrder& order, const KernelArgs& args);

struct ScanRow {
  std::string_view op;
  DType dtype;
  ScanLoop loop;
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/reduce/scan_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {

std::unique_ptr<Kernel> make_scan(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  ScanLoop loop = ASPEN_BEST(find_scan)(request.op, x.dtype);
  if (loop == nullptr) {
    why = fmt::format("{}: no vector loop for {}", request.op, to_string(x));
    return nullptr;
  }
  const auto& attrs = request.attrs.as<ScanAttrs>();
  LineBlocks blocks(AxisLines(x.shape, attrs.axis, request.op.c_str()), kMoveCost);
  ScanOrder order{attrs.reverse, attrs.exclusive};
  return make_kernel([blocks, order, loop](const KernelArgs& args) {
    blocks.for_each(args, [&](const LineBlock& block) { loop(block, order, args); });
  });
}

}  // namespace aspen
