#include <span>

#include "aspen/backends/cpu/elementwise.h"
#include "aspen/backends/cpu/widened.h"

#define ASPEN_ISA_FILE "aspen/ops/compare/compare_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_compare(const KernelRequest& request, std::string& why) {
  return make_typed_binary(request, ASPEN_BEST(compare_rows)(), why);
}

}  // namespace

void register_compare_cpu(KernelRegistry& kernels) {
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) add_with_half(kernels, op, make_compare);
}

}  // namespace aspen
