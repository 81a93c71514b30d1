#include "aspen/ops/unary/unary.h"

#include <string>

#include "aspen/backends/cpu/elementwise.h"

#define ASPEN_ISA_FILE "aspen/ops/unary/unary_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

struct Variant {
  std::string loop;  // its name in the tables of unary_loops.inc
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

}  // namespace

void register_unary_cpu(KernelRegistry& kernels) {
  for (const char* op :
       {"neg",   "abs",  "sign",  "floor",      "ceil", "round",   "trunc", "relu", "exp",  "expm1",    "log",
        "log1p", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid", "silu",  "erf",  "gelu", "softplus", "clamp"}) {
    kernels.add(op, make_unary);
  }
  for (const char* op :
       {"relu_grad", "tanh_grad", "sigmoid_grad", "silu_grad", "gelu_grad", "softplus_grad", "clamp_grad"}) {
    kernels.add(op, make_gradient);
  }
}

}  // namespace aspen
