// Walks over the tensors in an argument of a boxed call: a tensor, a list of tensors, a list of optional tensors.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

namespace poptorch {

// A copy of the argument with every tensor replaced by f(tensor); undefined tensors are shown too.
template <class F>
c10::IValue map_tensors(const c10::IValue& argument, F&& f) {
  if (argument.isTensor()) return f(argument.toTensor());
  if (argument.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : argument.toTensorVector()) list.push_back(f(tensor));
    return list;
  }
  if (argument.isOptionalTensorList()) {
    c10::List<c10::optional<at::Tensor>> list;
    for (c10::optional<at::Tensor> tensor : argument.toOptionalTensorList()) {
      list.push_back(tensor ? c10::optional<at::Tensor>(f(*tensor)) : c10::nullopt);
    }
    return list;
  }
  return argument;
}

template <class F>
void for_each_tensor(const c10::IValue& argument, F&& f) {
  if (argument.isTensor()) {
    f(argument.toTensor());
  } else if (argument.isTensorList()) {
    for (const at::Tensor& tensor : argument.toTensorVector()) f(tensor);
  } else if (argument.isOptionalTensorList()) {
    for (c10::optional<at::Tensor> tensor : argument.toOptionalTensorList()) {
      if (tensor) f(*tensor);
    }
  }
}

template <class F>
void for_each_tensor(const torch::jit::Stack& arguments, F&& f) {
  for (const c10::IValue& argument : arguments) for_each_tensor(argument, f);
}

}  // namespace poptorch
