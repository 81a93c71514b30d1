#include "aspen/ops/reduce/scan.cpu.h"

#include <string_view>
#include <type_traits>

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
  const auto& attrs = request.attrs.as<ScanAttrs>();
  ScanLoop loop = ASPEN_BEST(find_scan)(request.op, request.inputs[0].type.dtype);
  return make_line_kernel(request, why, attrs.axis, loop, ScanOrder{attrs.reverse, attrs.exclusive});
}

}  // namespace aspen
