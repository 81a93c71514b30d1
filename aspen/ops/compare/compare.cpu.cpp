#include <string_view>

#include "aspen/backends/cpu/elementwise.h"

#define ASPEN_ISA_FILE "aspen/ops/compare/compare_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_compare(const KernelRequest& request, std::string& why) {
  return make_compare_loop(request, ASPEN_BEST(find_compare)(request.op), why);
}

}  // namespace

void register_compare_cpu(KernelRegistry& kernels) {
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) kernels.add(op, make_compare);
}

}  // namespace aspen
