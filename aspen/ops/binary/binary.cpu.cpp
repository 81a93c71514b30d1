#include "aspen/ops/binary/binary.h"

#include <span>
#include <string_view>

#include "aspen/backends/cpu/elementwise.h"
#include "aspen/backends/cpu/widened.h"

#define ASPEN_ISA_FILE "aspen/ops/binary/binary_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::unique_ptr<Kernel> make_binary(const KernelRequest& request, std::string& why) {
  return make_binary_loop(request, ASPEN_BEST(find_binary)(request.op), {}, why);
}

std::unique_ptr<Kernel> make_huber(const KernelRequest& request, std::string& why) {
  auto [delta, slope] = request.attrs.as<HuberAttrs>();
  LoopParameters parameters{static_cast<float>(delta), static_cast<float>(slope)};
  return make_binary_loop(request, ASPEN_BEST(find_binary)(request.op), parameters, why);
}

std::unique_ptr<Kernel> make_typed(const KernelRequest& request, std::string& why) {
  return make_typed_binary(request, ASPEN_BEST(typed_rows)(), why);
}

}  // namespace

void register_binary_cpu(KernelRegistry& kernels) {
  for (const char* op : {"add", "sub", "mul", "max", "min", "div_trunc", "div_floor", "rem_trunc", "rem_floor",
                         "bitand", "bitor", "bitxor", "shl", "shr"}) {
    kernels.add(op, make_typed);
  }
  for (const char* op : {"add", "sub", "mul", "div", "max", "min", "pow", "prelu", "squared_difference", "atan2",
                         "div_trunc", "div_floor", "rem_trunc", "rem_floor"}) {
    kernels.add(op, make_binary);
  }
  kernels.add("huber", make_huber);
  for (const char* op : {"logical_and", "logical_or", "logical_xor"}) add_with_half(kernels, op, make_typed);
}

}  // namespace aspen
