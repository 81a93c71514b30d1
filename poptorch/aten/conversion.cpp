// Copies, casts and fills: a value under another type, or a tensor given new contents.
#include <ATen/core/Tensor.h>

#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

bool on_host(const Call& call, std::string_view argument) { return call.raw(argument).toTensor().device().is_cpu(); }

// The argument as another type; itself when nothing changes and no copy was asked for.
void convert(Call& call, ScalarType type, bool copy) {
  if (call.dtype("self") == type && !copy) {
    // A parameter or buffer: the same memory, as a tensor of the device.
    return on_host(call, "self") ? call.view("self", {}) : call.same("self");
  }
  call.result(operand(call, "self", type), type);
}

// to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format)
// to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, ...)
// to.dtype_layout(Tensor(a) self, *, ScalarType? dtype, Layout? layout, Device? device, ..., bool copy=False, ...)
void to_dtype(Call& call) {
  convert(call, call.dtype_option("dtype").value_or(call.dtype("self")), call.boolean("copy"));
}
// to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format)
void to_other(Call& call) { convert(call, call.dtype("other"), call.boolean("copy")); }
// type_as(Tensor self, Tensor other)
void type_as(Call& call) { convert(call, call.dtype("other"), false); }
// _to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, ...)
void to_copy(Call& call) { convert(call, call.dtype_option("dtype").value_or(call.dtype("self")), true); }

// positive(Tensor(a) self)
void identity(Call& call) { call.same("self"); }

// contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format): a copy unless it is contiguous already
void contiguous(Call& call) {
  const auto format = static_cast<c10::MemoryFormat>(call.integer("memory_format"));
  if (format == c10::MemoryFormat::Contiguous && call.is_contiguous("self")) return call.same("self");
  call.result(call.value("self"), call.dtype("self"));
}

// alias(Tensor(a) self), lift_fresh(Tensor(a) self)
void alias(Call& call) { call.view("self", {}); }
// detach(Tensor(a) self)
void detach_of(Call& call) { call.view("self", {{"detach", {}}}); }

// clone(Tensor self, *, MemoryFormat? memory_format=None), lift_fresh_copy(Tensor self)
void clone(Call& call) { call.result(call.value("self"), call.dtype("self")); }

// copy(Tensor self, Tensor src, bool non_blocking=False)
void copy(Call& call) {
  ScalarType type = call.dtype("self");
  call.result(build::broadcast(call.b, operand(call, "src", type), call.value("self")->shape()), type);
}

// fill.Scalar(Tensor self, Scalar value), fill.Tensor(Tensor self, Tensor value)
void fill(Call& call) {
  ScalarType type = call.dtype("self");
  Value* value = operand(call, "value", type);
  if (value->type().numel() != 1)
    throw UserError("[fill_] takes one number, not a tensor of shape {}.", to_string(value->shape()));
  call.result(build::broadcast(call.b, build::reshape(call.b, value, {}), call.value("self")->shape()), type);
}

// zero(Tensor self)
void zero(Call& call) { call.result(build::full_like(call.b, call.value("self"), 0), call.dtype("self")); }

}  // namespace

void register_conversion(HandlerTable& table) {
  for (const char* name : {"aten::to.dtype", "aten::to.device", "aten::to.dtype_layout"}) table.add(name, to_dtype);
  table.add("aten::to.other", to_other);
  table.add("aten::type_as", type_as);
  table.add("aten::_to_copy", to_copy);
  table.add("aten::contiguous", contiguous);
  table.add("aten::positive", identity);
  table.add("aten::alias", alias);
  table.add("aten::lift_fresh", alias);
  table.add("aten::detach", detach_of);
  table.add("aten::clone", clone);
  table.add("aten::lift_fresh_copy", clone);
  table.add("aten::copy", copy);
  table.add("aten::fill.Scalar", fill);
  table.add("aten::fill.Tensor", fill);
  table.add("aten::zero", zero);
}

}  // namespace poptorch
