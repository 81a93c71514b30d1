#include <string_view>

#include "aspen/backends/cpu/elementwise.h"

#define ASPEN_ISA_FILE "aspen/ops/binary/binary_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_binary(const KernelRequest& request, std::string& why) {
  return make_binary_loop(request, ASPEN_BEST(find_binary)(request.op), {}, why);
}

}  // namespace

void register_binary_cpu(KernelRegistry& kernels) {
  for (const char* op : {"add", "sub", "mul", "div", "max", "min"}) kernels.add(op, make_binary);
}

}  // namespace aspen
