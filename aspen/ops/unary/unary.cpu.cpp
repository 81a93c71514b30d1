#include "aspen/ops/unary/unary.h"

#include <string>
#include <string_view>

#include "aspen/backends/cpu/elementwise.h"

#define ASPEN_ISA_FILE "aspen/ops/unary/unary_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

struct Variant {
  std::string loop;  // its name in unary_loops.inc
  LoopParameters parameters;
};

Variant variant_of(const KernelRequest& request) {
  const std::string& op = request.op;
  auto is = [&](const char* name) { return op == name || op == std::string(name) + "_grad"; };
  if (is("gelu")) return {request.attrs.as<GeluAttrs>().tanh ? op + "/tanh" : op, {}};
  if (is("softplus")) {
    const auto& attrs = request.attrs.as<SoftplusAttrs>();
    return {op, {static_cast<float>(attrs.beta), static_cast<float>(attrs.threshold)}};
  }
  if (is("clamp")) {
    const auto& attrs = request.attrs.as<ClampAttrs>();
    return {op, {static_cast<float>(attrs.low), static_cast<float>(attrs.high)}};
  }
  return {op, {}};
}

std::unique_ptr<Kernel> make_unary(const KernelRequest& request, std::string& why) {
  Variant variant = variant_of(request);
  if (std::isnan(variant.parameters.a) || std::isnan(variant.parameters.b)) {
    why = request.op + ": a NaN bound";
    return nullptr;
  }
  return make_unary_loop(request, ASPEN_BEST(find_unary)(variant.loop), variant.parameters, why);
}

std::unique_ptr<Kernel> make_gradient(const KernelRequest& request, std::string& why) {
  Variant variant = variant_of(request);
  return make_binary_loop(request, ASPEN_BEST(find_gradient)(variant.loop), variant.parameters, why);
}

// The ops of a table of loops, which is the same for every instruction set.
template <class Rows>
void add_ops(KernelRegistry& kernels, const Rows& rows, const KernelFactory& factory) {
  for (const auto& row : rows) {
    bool is_variant = row.name.find('/') != std::string_view::npos;
    if (!is_variant) kernels.add(row.name, factory);
  }
}

}  // namespace

void register_unary_cpu(KernelRegistry& kernels) {
  add_ops(kernels, isa_baseline::kUnaryLoops, make_unary);
  add_ops(kernels, isa_baseline::kGradientLoops, make_gradient);
}

}  // namespace aspen
