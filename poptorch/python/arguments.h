// Arguments that come as any Python object: checked, with the errors the API promises, and turned into C++.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <vector>

namespace poptorch {

std::string repr_of(const pybind11::handle& object);
std::string type_name_of(const pybind11::handle& object);
bool is_text(const pybind11::handle& object);
bool is_integer(const pybind11::handle& object);  // a bool too
bool is_float(const pybind11::handle& object);
bool is_list_or_tuple(const pybind11::handle& object);
bool is_tensor(const pybind11::handle& object);

// Weights that a device holds come to the host when the tensor that follows them is looked at.
at::Tensor to_tensor(const pybind11::handle& object);
// An Error "[op] expects a tensor, ..." for anything else.
at::Tensor tensor_argument(const char* op, const pybind11::handle& object);
// None for anything but a list of tensors.
std::optional<std::vector<at::Tensor>> tensor_list(const pybind11::handle& object);

// The elements of a list or tuple, each turned by `to`; none if `is_kind` does not hold for all of them.
template <class T, class Is, class To>
std::optional<std::vector<T>> list_of(const pybind11::handle& values, const Is& is_kind, const To& to) {
  if (!is_list_or_tuple(values)) return std::nullopt;
  std::vector<T> list;
  for (const pybind11::handle value : pybind11::reinterpret_borrow<pybind11::sequence>(values)) {
    if (!is_kind(value)) return std::nullopt;
    list.push_back(to(value));
  }
  return list;
}

// Whether the object is a member of the enumeration of poptorch.enums.
bool is_member_of(const char* enumeration, const pybind11::handle& object);
// Its name. An ArgumentError "Expected a Liveness, ..." for anything else.
std::string member_of(const char* enumeration, const pybind11::handle& object);

}  // namespace poptorch
