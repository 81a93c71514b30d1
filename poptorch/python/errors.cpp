#include "poptorch/python/errors.h"

#include <algorithm>

#include "aspen/base/error.h"

namespace py = pybind11;

namespace poptorch {
namespace {

py::object& error_class() {
  // Never destroyed: the interpreter may be gone by then.
  static auto* cls = new py::object(py::reinterpret_borrow<py::object>(PyExc_RuntimeError));
  return *cls;
}

// "who and what" and the lines that say where: "  captured at ...", "  in op ..., captured at ...".
std::pair<std::string, std::string> split_location(const std::string& text) {
  const auto at = std::min(text.find("\n  captured at "), text.find("\n  in op "));
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 3)};
}

py::object make_error(const std::string& text, const char* type) {
  py::object error = error_class()(text);
  if (error_class().ptr() == PyExc_RuntimeError) return error;
  const auto [message, location] = split_location(text);
  error.attr("message") = message;
  error.attr("type") = type;
  error.attr("location") = location;
  return error;
}

void raise(const std::string& text, const char* type) {
  const py::object error = make_error(text, type);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
}

}  // namespace

void set_error_class(const py::object& cls) { error_class() = cls; }

void register_error_translation() {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const aspen::UserError& error) {
      raise(error.what(), "poptorch_cpp_error");
    } catch (const aspen::DeviceError& error) {
      raise(error.what(), "poptorch_device_error");
    } catch (const aspen::Error& error) {
      raise(error.what(), "poptorch_internal_error");
    }
  });
}

void rethrow_as_our_own(py::error_already_set& error, const std::string& text) {
  if (text.empty() || !error.matches(PyExc_RuntimeError)) return;
  const std::string shown = py::str(error.value()).cast<std::string>();
  // Torch appends a C++ backtrace to some errors.
  if (shown.compare(0, text.size(), text) != 0) return;
  py::object cause = error.value();
  if (error.trace()) cause.attr("__traceback__") = error.trace();
  py::object own = make_error(text, "poptorch_cpp_error");
  own.attr("__cause__") = cause;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(own.ptr())), own.ptr());
  throw py::error_already_set();
}

}  // namespace poptorch
