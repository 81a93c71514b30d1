#include "poptorch/capture/complex_ops.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <map>
#include <set>

#include "poptorch/capture/complex.h"
#include "poptorch/capture/dispatch.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/tensors.h"

namespace poptorch {
namespace {

using c10::IValue;
using c10::OperatorHandle;
using torch::jit::Stack;
using Lowered = std::optional<Stack>;

bool holds_complex(const at::Tensor& tensor) { return tensor.defined() && tensor.is_complex(); }

at::Tensor real_part(const at::Tensor& z) { return holds_complex(z) ? as_pairs(z).select(-1, 0) : z; }
at::Tensor imaginary_part(const at::Tensor& z) {
  return holds_complex(z) ? as_pairs(z).select(-1, 1) : at::zeros_like(z);
}
at::Tensor joined(const at::Tensor& real, const at::Tensor& imaginary) {
  return at::view_as_complex(at::stack({real, imaginary}, -1));
}

// -- ops that treat the two parts alike -----------------------------------------------------------------------------

// f(a + ib) = f(a) + i f(b): sums, and whatever moves elements about.
const std::set<std::string>& linear_ops() {
  static const std::set<std::string> names = {
      "aten::_reshape_alias",
      "aten::_to_copy",
      "aten::_unsafe_view",
      "aten::add",
      "aten::alias",
      "aten::as_strided",
      "aten::cat",
      "aten::clone",
      "aten::constant_pad_nd",
      "aten::contiguous",
      "aten::cumsum",
      "aten::detach",
      "aten::diagonal",
      "aten::expand",
      "aten::flip",
      "aten::gather",
      "aten::index",
      "aten::index_select",
      "aten::mean",
      "aten::neg",
      "aten::permute",
      "aten::repeat",
      "aten::reshape",
      "aten::roll",
      "aten::rsub",
      "aten::select",
      "aten::slice",
      "aten::split",
      "aten::split_with_sizes",
      "aten::squeeze",
      "aten::stack",
      "aten::sub",
      "aten::sum",
      "aten::t",
      "aten::to",
      "aten::transpose",
      "aten::tril",
      "aten::triu",
      "aten::unbind",
      "aten::unfold",
      "aten::unsqueeze",
      "aten::view",
      "aten::where",
  };
  return names;
}

// Of both parts the same: where elements are taken from, and which of them.
bool is_shared(const c10::Argument& formal) {
  static const std::set<std::string> names = {"index", "indices", "condition"};
  return names.count(formal.name()) > 0;
}
// A number that is added or filled in has parts, too.
bool has_parts(const c10::Argument& formal) {
  static const std::set<std::string> names = {"other", "value"};
  return names.count(formal.name()) > 0;
}

// The op on one part of its arguments; nullopt if a factor is complex.
Lowered on_part(const OperatorHandle& op, Stack arguments, bool imaginary) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& formal = op.schema().arguments()[i];
    if (formal.name() == "dtype" && arguments[i].isInt()) {
      arguments[i] =
          static_cast<std::int64_t>(c10::toRealValueType(static_cast<c10::ScalarType>(arguments[i].toInt())));
    } else if (arguments[i].isComplexDouble() || (arguments[i].isScalar() && has_parts(formal))) {
      if (!has_parts(formal)) return std::nullopt;
      const c10::complex<double> number = arguments[i].toScalar().toComplexDouble();
      arguments[i] = c10::Scalar(imaginary ? number.imag() : number.real());
    } else if (!is_shared(formal)) {
      arguments[i] = map_tensors(arguments[i], [&](const at::Tensor& tensor) {
        if (!tensor.defined()) return tensor;
        return imaginary ? imaginary_part(tensor) : real_part(tensor);
      });
    }
  }
  op.callBoxed(&arguments);
  return arguments;
}

IValue joined(const IValue& real, const IValue& imaginary) {
  if (real.isTensor()) return joined(real.toTensor(), imaginary.toTensor());
  c10::List<at::Tensor> list;
  const auto reals = real.toTensorVector(), imaginaries = imaginary.toTensorVector();
  for (std::size_t i = 0; i < reals.size(); ++i) list.push_back(joined(reals[i], imaginaries[i]));
  return list;
}

Lowered by_linearity(const OperatorHandle& op, const Stack& arguments) {
  Lowered results = on_part(op, arguments, false);
  if (!results) return std::nullopt;
  const Lowered imaginary = on_part(op, arguments, true);
  if (!imaginary) return std::nullopt;
  for (std::size_t i = 0; i < results->size(); ++i) (*results)[i] = joined((*results)[i], (*imaginary)[i]);
  return results;
}

// -- products -------------------------------------------------------------------------------------------------------

// f(a + ib, c + id) = f(a, c) - f(b, d) + i (f(a, d) + f(b, c))
const std::set<std::string>& bilinear_ops() {
  static const std::set<std::string> names = {"aten::bmm", "aten::dot", "aten::matmul", "aten::mm",
                                              "aten::mul", "aten::mv",  "aten::outer",  "aten::linalg_matmul"};
  return names;
}

// mul.Scalar(Tensor self, Scalar other)
Lowered by_number(const at::Tensor& z, const IValue& other) {
  const at::Tensor a = real_part(z), b = imaginary_part(z);
  const c10::Scalar number = other.toScalar();
  if (!number.isComplex()) return Stack{joined(a * number, b * number)};
  const double c = number.toComplexDouble().real(), d = number.toComplexDouble().imag();
  return Stack{joined(a * c - b * d, a * d + b * c)};
}

Lowered by_bilinearity(const OperatorHandle& op, const Stack& arguments) {
  if (full_name(op) == "aten::mul.Scalar") return by_number(arguments[0].toTensor(), arguments[1]);
  if (arguments.size() != 2 || !arguments[0].isTensor() || !arguments[1].isTensor()) return std::nullopt;
  const at::Tensor x = arguments[0].toTensor(), y = arguments[1].toTensor();
  const auto type = c10::toRealValueType(at::result_type(x, y));
  const auto f = [&](const at::Tensor& a, const at::Tensor& b) {
    Stack results = {a.to(type), b.to(type)};
    op.callBoxed(&results);
    return results[0].toTensor();
  };
  if (!holds_complex(x)) return Stack{joined(f(x, real_part(y)), f(x, imaginary_part(y)))};
  if (!holds_complex(y)) return Stack{joined(f(real_part(x), y), f(imaginary_part(x), y))};
  const at::Tensor a = real_part(x), b = imaginary_part(x), c = real_part(y), d = imaginary_part(y);
  return Stack{joined(f(a, c) - f(b, d), f(a, d) + f(b, c))};
}

// -- functions ------------------------------------------------------------------------------------------------------

at::Tensor conjugate(const at::Tensor& z) { return joined(real_part(z), -imaginary_part(z)); }
at::Tensor squared_size(const at::Tensor& z) {
  const at::Tensor a = real_part(z), b = imaginary_part(z);
  return a * a + b * b;
}
at::Tensor complex_reciprocal(const at::Tensor& z) {
  const at::Tensor size = squared_size(z);
  return joined(real_part(z) / size, -imaginary_part(z) / size);
}
at::Tensor complex_exp(const at::Tensor& z) {
  const at::Tensor size = real_part(z).exp(), turn = imaginary_part(z);
  return joined(size * turn.cos(), size * turn.sin());
}
at::Tensor complex_sigmoid(const at::Tensor& z) { return complex_reciprocal(complex_exp(-z) + 1); }

// div.Tensor(Tensor self, Tensor other), div.Scalar(Tensor self, Scalar other)
Lowered lower_div(const OperatorHandle& op, const Stack& arguments) {
  if (full_name(op) == "aten::div.Scalar" && !arguments[1].isComplexDouble()) {
    const at::Tensor z = arguments[0].toTensor();
    const c10::Scalar number = arguments[1].toScalar();
    return Stack{joined(real_part(z) / number, imaginary_part(z) / number)};
  }
  if (full_name(op) != "aten::div.Tensor") return std::nullopt;
  const at::Tensor x = arguments[0].toTensor(), y = arguments[1].toTensor();
  const auto type = c10::toRealValueType(at::result_type(x, y));
  if (!holds_complex(y)) return Stack{joined(real_part(x) / y.to(type), imaginary_part(x) / y.to(type))};
  const at::Tensor product = x * conjugate(y), size = squared_size(y).to(type);
  return Stack{joined(real_part(product) / size, imaginary_part(product) / size)};
}

// to.dtype(Tensor self, ScalarType dtype, ...), _to_copy: between real and complex numbers
Lowered lower_conversion(const OperatorHandle& op, const Stack& arguments) {
  if (!holds_complex(arguments[0].toTensor())) return by_linearity(op, arguments);  // the imaginary part is 0
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const bool is_type = op.schema().arguments()[i].name() == "dtype" && arguments[i].isInt();
    if (!is_type || c10::isComplexType(static_cast<c10::ScalarType>(arguments[i].toInt()))) continue;
    return on_part(op, arguments, false);  // torch drops the imaginary part
  }
  return by_linearity(op, arguments);
}

// complex(Tensor real, Tensor imag), polar(Tensor abs, Tensor angle): of float32, as they are for
Lowered lower_making(const OperatorHandle& op, const Stack& arguments) {
  const at::Tensor a = arguments[0].toTensor(), b = arguments[1].toTensor();
  if (a.scalar_type() != b.scalar_type() || !a.is_floating_point()) return std::nullopt;
  const auto shape = at::infer_size(a.sizes(), b.sizes());
  const at::Tensor x = a.expand(shape), y = b.expand(shape);
  if (full_name(op) == "aten::complex") return Stack{joined(x, y)};
  return full_name(op) == "aten::polar" ? Lowered(Stack{joined(x * y.cos(), x * y.sin())}) : std::nullopt;
}

using Function = at::Tensor (*)(const at::Tensor&);
Function function_of(const std::string& name) {
  static const std::map<std::string, Function> table = {
      // The size as a norm: its gradient is 0 at 0.
      {"aten::abs", [](const at::Tensor& z) { return at::linalg_vector_norm(as_pairs(z), 2, {{-1}}); }},
      {"aten::angle", [](const at::Tensor& z) { return at::atan2(imaginary_part(z), real_part(z)); }},
      {"aten::_conj", conjugate},
      {"aten::_conj_physical", conjugate},
      {"aten::conj_physical", conjugate},
      {"aten::exp", complex_exp},
      {"aten::reciprocal", complex_reciprocal},
      {"aten::sigmoid", complex_sigmoid},
      {"aten::silu", [](const at::Tensor& z) { return z * complex_sigmoid(z); }},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

// -- pairs ----------------------------------------------------------------------------------------------------------

// view_as_real(Tensor(a) self), view_as_complex(Tensor(a) self): the same pairs; a copy, where torch has a view
Lowered lower_view_as_real(Recorder& recorder, const at::Tensor& self) {
  if (!holds_complex(self)) return std::nullopt;
  return Stack{recorder.wrap(recorder.value_of(self), c10::toRealValueType(self.scalar_type()))};
}
Lowered lower_view_as_complex(Recorder& recorder, const at::Tensor& self) {
  if (!self.is_floating_point() || self.dim() == 0 || self.size(-1) != 2) return std::nullopt;
  return Stack{recorder.wrap(recorder.value_of(self), c10::toComplexType(self.scalar_type()))};
}

bool makes_complex(const std::string& name) { return name == "aten::complex" || name == "aten::polar"; }

}  // namespace

bool concerns_complex(const OperatorHandle& op, const Stack& arguments) {
  const std::string& name = op.operator_name().name;
  bool found = makes_complex(name) || name == "aten::view_as_complex";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    found = found || (op.schema().arguments()[i].name() == "dtype" && arguments[i].isInt() &&
                      c10::isComplexType(static_cast<c10::ScalarType>(arguments[i].toInt())));
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) { found = found || holds_complex(tensor); });
  }
  return found;
}

Lowered lower_complex(Recorder& recorder, const OperatorHandle& op, const Stack& arguments) {
  const std::string& name = op.operator_name().name;
  if (name == "aten::view_as_real") return lower_view_as_real(recorder, arguments[0].toTensor());
  if (name == "aten::view_as_complex") return lower_view_as_complex(recorder, arguments[0].toTensor());
  const CaptureScope capture;
  if (name == "aten::to" || name == "aten::_to_copy") return lower_conversion(op, arguments);
  if (makes_complex(name)) return lower_making(op, arguments);
  if (name == "aten::div") return lower_div(op, arguments);
  if (linear_ops().count(name) > 0) return by_linearity(op, arguments);
  if (bilinear_ops().count(name) > 0) return by_bilinearity(op, arguments);
  const Function function = function_of(name);
  const bool is_plain = function != nullptr && arguments.size() == 1;
  return is_plain ? Lowered(Stack{function(arguments[0].toTensor())}) : std::nullopt;
}

}  // namespace poptorch
