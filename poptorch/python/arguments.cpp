#include "poptorch/python/arguments.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "poptorch/error.h"

namespace py = pybind11;

namespace poptorch {

std::string repr_of(const py::handle& object) { return py::repr(object).cast<std::string>(); }

std::string type_name_of(const py::handle& object) {
  return py::type::handle_of(object).attr("__name__").cast<std::string>();
}

bool is_text(const py::handle& object) { return PyUnicode_Check(object.ptr()); }
bool is_integer(const py::handle& object) { return PyLong_Check(object.ptr()); }
bool is_float(const py::handle& object) { return PyFloat_Check(object.ptr()); }
bool is_list_or_tuple(const py::handle& object) { return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()); }
bool is_tensor(const py::handle& object) { return THPVariable_Check(object.ptr()); }

at::Tensor to_tensor(const py::handle& object) {
  if (!THPVariable_CheckExact(object.ptr())) py::getattr(object, "dtype");  // looks at it
  return THPVariable_Unpack(object.ptr());
}

at::Tensor tensor_argument(const char* op, const py::handle& object) {
  if (!is_tensor(object)) throw Error(fmt::format("[{}] expects a tensor, not a {}.", op, type_name_of(object)));
  return to_tensor(object);
}

std::optional<std::vector<at::Tensor>> tensor_list(const py::handle& object) {
  if (!PyList_Check(object.ptr())) return std::nullopt;
  std::vector<at::Tensor> tensors;
  for (const py::handle item : py::reinterpret_borrow<py::list>(object)) {
    if (!is_tensor(item)) return std::nullopt;
    tensors.push_back(to_tensor(item));
  }
  return tensors;
}

bool is_member_of(const char* enumeration, const py::handle& object) {
  return py::isinstance(object, py::module_::import("poptorch.enums").attr(enumeration));
}

std::string member_of(const char* enumeration, const py::handle& object) {
  if (!is_member_of(enumeration, object)) {
    throw ArgumentError(fmt::format("Expected a {}, not {}", enumeration, repr_of(object)));
  }
  return object.attr("name").cast<std::string>();
}

}  // namespace poptorch
