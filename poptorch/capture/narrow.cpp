#include "poptorch/capture/narrow.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "aspen/base/error.h"
#include "aspen/base/log.h"
#include "aspen/base/wide_integers.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/ops/cast/cast.h"
#include "aspen/ops/source/source.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/host_data.h"

namespace poptorch {

using aspen::DType;
using c10::ScalarType;

namespace {

at::Tensor narrowed(const at::Tensor& tensor, std::string_view whose) {
  const at::Tensor dense = tensor.contiguous();
  const std::int64_t* values = dense.data_ptr<std::int64_t>();
  at::Tensor result = at::empty(dense.sizes(), at::kInt);
  const bool all_fit = aspen::narrow_integers(values, dense.numel(), result.data_ptr<std::int32_t>());
  if (!all_fit) aspen::fail_too_wide(values, dense.numel(), whose);
  return result;
}

// The extremes of int64 among constants stand for "less" and "more than any other", as torch.masked fills them in, not
// for numbers: here the extremes of int32 are that.
at::Tensor with_own_extremes(const at::Tensor& tensor) {
  using Own = std::numeric_limits<std::int32_t>;
  using Wide = std::numeric_limits<std::int64_t>;
  if (tensor.scalar_type() != ScalarType::Long || tensor.numel() == 0) return tensor;
  const auto [least, most] = at::aminmax(tensor.detach());
  if (least.item<std::int64_t>() != Wide::min() && most.item<std::int64_t>() != Wide::max()) return tensor;
  const at::Tensor plain = tensor.detach();
  return plain.masked_fill(plain.eq(Wide::min()), Own::min()).masked_fill(plain.eq(Wide::max()), Own::max());
}

bool fits(double value) {
  using Limits = std::numeric_limits<std::int32_t>;
  return value >= Limits::min() && value <= Limits::max();
}

// As a floating-point number it may be as large as it likes.
bool is_only_cast_to_float(const aspen::Graph& graph, const aspen::Value* number) {
  if (graph.is_output(number)) return false;
  const auto& users = number->users();
  return std::all_of(users.begin(), users.end(), [](const aspen::Op* user) {
    return user->is("cast") && aspen::is_floating(user->attrs<aspen::CastAttrs>().dtype);
  });
}

}  // namespace

void check_integer_numbers(const aspen::Graph& graph) {
  for (const auto& op : graph.ops()) {
    for (const aspen::Graph* body : aspen::bodies_of(*op)) check_integer_numbers(*body);
    if (!op->is("full") || op->output()->dtype() != DType::kI32) continue;
    const double value = op->attrs<aspen::FullAttrs>().value;
    if (fits(value) || is_only_cast_to_float(graph, op->output())) continue;
    const std::string& source = op->location.source;
    throw aspen::UserError("[types] the number {:.0f} meets integers, {}.{}", value, aspen::kIntegerRule,
                           source.empty() ? "" : "\n  captured at " + source);
  }
}

at::Tensor to_graph_type(const at::Tensor& tensor, std::string_view whose) {
  HostScope host;
  const at::Tensor plain = tensor.detach();
  if (plain.scalar_type() == ScalarType::Long) return narrowed(plain, whose);
  return plain.to(host_dtype(graph_dtype(plain.scalar_type()))).contiguous();
}

std::optional<double> first_overflow(const at::Tensor& tensor, const at::Tensor& in_graph_type) {
  if (tensor.scalar_type() != ScalarType::Double) return std::nullopt;
  HostScope host;
  const at::Tensor infinite = in_graph_type.isinf();
  if (!infinite.any().item<bool>()) return std::nullopt;
  const at::Tensor lost = tensor.detach().masked_select(infinite.logical_and(tensor.detach().isfinite()));
  return lost.numel() == 0 ? std::nullopt : std::optional(lost[0].item<double>());
}

at::Tensor to_graph_tensor(const at::Tensor& tensor, std::string_view what) {
  HostScope host;
  at::Tensor exact = to_graph_type(with_own_extremes(tensor), what);
  if (const auto lost = first_overflow(tensor, exact)) {
    aspen::log::warn("{} holds {}, which is infinite in the float32 of the device", what, *lost);
  }
  return exact;
}

std::vector<std::byte> to_graph_bytes(const at::Tensor& tensor, std::string_view what) {
  const at::Tensor exact = to_graph_tensor(tensor, what);
  const auto* bytes = static_cast<const std::byte*>(exact.data_ptr());
  return {bytes, bytes + exact.nbytes()};
}

}  // namespace poptorch
