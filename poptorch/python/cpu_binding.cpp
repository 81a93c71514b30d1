// Layers of the user's on the host, written in Python.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "aspen/base/error.h"
#include "poptorch/capture/host_layer.h"
#include "poptorch/python/arguments.h"
#include "poptorch/python/bindings.h"

namespace py = pybind11;

namespace poptorch {
namespace {

using Object = const py::object&;
using Tensors = std::vector<at::Tensor>;

// "ValueError: text (model.py:12, forward)"
std::string describe(const py::error_already_set& error) {
  std::string text =
      py::str(error.type().attr("__name__")).cast<std::string>() + ": " + py::str(error.value()).cast<std::string>();
  if (!error.trace()) return text;
  const py::list frames = py::module_::import("traceback").attr("extract_tb")(error.trace());
  if (frames.empty()) return text;
  const py::object last = frames[frames.size() - 1];
  const auto part = [&](const char* name) { return py::str(last.attr(name)).cast<std::string>(); };
  return text + fmt::format(" ({}:{}, {})", part("filename"), part("lineno"), part("name"));
}

// A Python layer: it returns a tensor, or a tuple or list of them.
class PythonLayer {
 public:
  explicit PythonLayer(py::object layer) : layer_(shared_object(std::move(layer))) {}

  Tensors operator()(const Tensors& inputs) const {
    const py::gil_scoped_acquire gil;
    try {
      return tensors_of(call(inputs));
    } catch (const py::error_already_set& error) {
      throw aspen::UserError("{}", describe(error));
    }
  }

  // In the form in which the layer returned them last.
  py::object packed(const Tensors& results) const {
    if (*form_ == Form::kTuple) return py::tuple(py::cast(results));
    return *form_ == Form::kList ? py::cast(results) : py::cast(results.at(0));
  }

 private:
  enum class Form { kTensor, kTuple, kList };

  py::object call(const Tensors& inputs) const {
    py::tuple arguments(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) arguments[i] = inputs[i];
    return (*layer_)(*arguments);
  }

  Tensors tensors_of(const py::object& result) const {
    *form_ = PyTuple_Check(result.ptr()) ? Form::kTuple : PyList_Check(result.ptr()) ? Form::kList : Form::kTensor;
    if (is_tensor(result)) return {to_tensor(result)};
    if (auto tensors = list_of<at::Tensor>(result, is_tensor, to_tensor)) return *tensors;
    throw aspen::UserError("the layer returned {}; expected a tensor, or a tuple or list of tensors.", repr_of(result));
  }

  std::shared_ptr<py::object> layer_;
  std::shared_ptr<Form> form_ = std::make_shared<Form>();
};

// owner: the object of class CPU.
py::object call_on_host(Object owner, Object layer, const std::string& id, const py::tuple& inputs) {
  Tensors tensors;
  const std::string op = "CPU " + id;
  for (const py::handle input : inputs) tensors.push_back(tensor_argument(op.c_str(), input));
  const PythonLayer python_layer(layer);
  const std::shared_ptr<const void> identity(shared_object(owner), owner.ptr());
  return python_layer.packed(record_host_layer(*Recorder::current(), {id, identity, python_layer}, tensors));
}

}  // namespace

void bind_cpu_layers(py::module_& module) { module.def("call_on_host", &call_on_host); }

}  // namespace poptorch
