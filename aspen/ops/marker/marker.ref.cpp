#include "aspen/ops/marker/marker.h"

#include <cstdio>

#include "aspen/backends/reference/elementwise.h"
#include "aspen/ops/marker/format_tensor.h"

namespace aspen {
namespace {

void print(const KernelCall& call) {
  const auto& attrs = call.attrs<PrintAttrs>();
  std::string text = attrs.title + ": " + format_tensor(call.in_type(0), call.in<void>(0), attrs) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);  // one call: lines of several workers do not mix
  copy_kernel<0>(call);
}

}  // namespace

// detach, checkpoint and loss are aliases and need no kernel.
void register_marker_ref(KernelRegistry& kernels) {
  kernels.add("nop", copy_kernel<0>);
  kernels.add("print", print);
  kernels.add("assign", copy_kernel<1>);  // output 0: the variable's buffer
}

}  // namespace aspen
