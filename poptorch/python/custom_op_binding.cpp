// poptorch.custom_op: its arguments may be any object, and what is wrong is a ValueError.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "poptorch/api/custom_op_attributes.h"
#include "poptorch/error.h"
#include "poptorch/python/arguments.h"
#include "poptorch/python/bindings.h"

namespace py = pybind11;

namespace poptorch {
namespace {

using Object = const py::object&;
using Tensors = std::vector<at::Tensor>;

std::int64_t wide(const std::string& name, const py::handle& value) {
  int overflow = 0;
  const std::int64_t number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow == 0) return number;
  throw Error(fmt::format("[custom_op] attribute \"{}\" is {}, which 64 bits cannot hold.", name, repr_of(value)));
}

CustomOpAttributes::Value attribute_value(const std::string& name, const py::handle& value) {
  const auto text_of = [](const py::handle& text) { return text.cast<std::string>(); };
  const auto integer_of = [&](const py::handle& integer) { return wide(name, integer); };
  const auto float_of = [&](const py::handle& number) { return attribute_float(name, number.cast<double>()); };
  if (is_text(value)) return text_of(value);
  if (is_integer(value)) return integer_of(value);
  if (is_float(value)) return float_of(value);
  if (is_list_or_tuple(value) && py::len(value) > 0) {
    if (auto integers = list_of<std::int64_t>(value, is_integer, integer_of)) return *integers;
    if (auto floats = list_of<float>(value, is_float, float_of)) return *floats;
    if (auto texts = list_of<std::string>(value, is_text, text_of)) return *texts;
  }
  throw ValueError(
      fmt::format("Attribute \"{}\" must be a float, an int, a str, or a list or tuple of one kind of these, not {}",
                  name, repr_of(value)));
}

CustomOpAttributes attributes_of(Object attributes) {
  if (attributes.is_none()) return {};
  if (!PyDict_Check(attributes.ptr())) {
    throw ValueError(fmt::format("The attributes of custom_op must be a dict, not {}", repr_of(attributes)));
  }
  CustomOpAttributes::Map values;
  for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(attributes)) {
    if (!is_text(key)) throw ValueError(fmt::format("The name of an attribute must be a str, not {}", repr_of(key)));
    const auto name = key.cast<std::string>();
    values.emplace(name, attribute_value(name, value));
  }
  return CustomOpAttributes(std::move(values));
}

Tensors tensors_argument(const char* what, Object tensors) {
  if (auto list = list_of<at::Tensor>(tensors, is_tensor, to_tensor)) return *list;
  throw ValueError(fmt::format("{} of custom_op must be a list of tensors, not {}", what, repr_of(tensors)));
}

Tensors custom_op(Object inputs, Object name, Object domain, Object version, Object examples, Object attributes) {
  if (!is_text(name) || !is_text(domain)) {
    throw ValueError(
        fmt::format("The name and domain of custom_op must be str, not {} and {}", repr_of(name), repr_of(domain)));
  }
  if (!is_integer(version)) {
    throw ValueError(fmt::format("The domain_version of custom_op must be an int, not {}", repr_of(version)));
  }
  return customOp(tensors_argument("The inputs", inputs), name.cast<std::string>(), domain.cast<std::string>(),
                  version.cast<std::int64_t>(), tensors_argument("The example_outputs", examples),
                  attributes_of(attributes));
}

}  // namespace

void bind_custom_ops(py::module_& module) {
  module.def(
      "custom_op", &custom_op, py::arg("inputs"), py::arg("name"), py::arg("domain"), py::arg("domain_version"),
      py::arg("example_outputs"), py::arg("attributes") = py::none(),
      "Calls an operator that a library has registered (docs/custom-ops.md). On the host: zeros like the example "
      "outputs.");
}

}  // namespace poptorch
