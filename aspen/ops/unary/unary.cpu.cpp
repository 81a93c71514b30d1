#include "aspen/ops/unary/unary.h"

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/elementwise.h"
#include "aspen/backends/cpu/widened.h"

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
  if (is("leaky_relu")) return {op, {.a = static_cast<float>(request.attrs.as<LeakyReluAttrs>().slope)}};
  if (is("clamp")) {
    const auto& attrs = request.attrs.as<ClampAttrs>();
    const bool is_open_gradient = attrs.open && op == "clamp_grad";
    return {is_open_gradient ? op + "/open" : op, {static_cast<float>(attrs.low), static_cast<float>(attrs.high)}};
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

std::unique_ptr<Kernel> make_typed(const KernelRequest& request, std::string& why) {
  return make_typed_unary(request, ASPEN_BEST(typed_unary_rows)(), why);
}

// A bound of integers: the fraction does not matter, since what is cut off to it is truncated; an infinite one is none.
std::int32_t integer_bound(double bound, double none) {
  if (bound == none) {
    return none < 0 ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int32_t>::max();
  }
  return static_cast<std::int32_t>(bound);
}

std::unique_ptr<Kernel> make_integer_clamp(const KernelRequest& request, std::string& why) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto [low, high, open] = request.attrs.as<ClampAttrs>();
  auto fits = [](double bound, double none) { return bound == none || std::fabs(bound) < 0x1p31; };
  if (request.inputs[0].type.dtype != DType::kI32 || !fits(low, -kInfinity) || !fits(high, kInfinity)) {
    why = fmt::format("clamp: no vector loop for {} between {} and {}", to_string(request.outputs[0]), low, high);
    return nullptr;
  }
  std::int32_t least = integer_bound(low, -kInfinity), most = integer_bound(high, kInfinity);
  return make_kernel(
      [least, most, chunks = cut_elements(request.outputs[0].numel(), kMoveCost)](const KernelArgs& args) {
        for_each_chunk(args, chunks, [&](const Chunk& chunk) {
          ASPEN_BEST(clamp_integers)
          (static_cast<const std::int32_t*>(args.inputs[0]) + chunk.begin,
           static_cast<std::int32_t*>(args.outputs[0]) + chunk.begin, chunk.size(), least, most);
        });
      });
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
  for (const char* op : {"neg", "abs", "sign", "relu", "bitwise_not"}) kernels.add(op, make_typed);
  kernels.add("clamp", make_integer_clamp);
  for (const char* op : {"isnan", "isinf", "isfinite", "signbit", "logical_not"}) {
    add_with_half(kernels, op, make_typed);
  }
}

}  // namespace aspen
