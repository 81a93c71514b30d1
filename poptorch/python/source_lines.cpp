#include "poptorch/python/source_lines.h"

#include <Python.h>
#include <frameobject.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <filesystem>

namespace py = pybind11;

namespace poptorch {
namespace {

std::string folder_of(const char* module) {
  const std::filesystem::path file(py::module_::import(module).attr("__file__").cast<std::string>());
  return file.parent_path().string() + "/";
}

std::vector<std::string>& excludes() {
  static std::vector<std::string> list = {folder_of("torch"), "/poptorch/"};
  return list;
}

bool is_excluded(const std::string& file) {
  return std::any_of(excludes().begin(), excludes().end(),
                     [&](const std::string& part) { return file.find(part) != std::string::npos; });
}

std::string text(PyObject* object) { return py::reinterpret_steal<py::str>(object).cast<std::string>(); }

}  // namespace

void set_source_excludes(const std::vector<std::string>& list) { excludes() = list; }

std::string user_source_line() {
  py::gil_scoped_acquire gil;
  auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    const std::string file = text(PyObject_GetAttrString(code.ptr(), "co_filename"));
    if (!is_excluded(file)) {
      const char* name = PyObject_HasAttrString(code.ptr(), "co_qualname") ? "co_qualname" : "co_name";
      return std::filesystem::path(file).filename().string() + ":" + std::to_string(PyFrame_GetLineNumber(raw)) + ", " +
             text(PyObject_GetAttrString(code.ptr(), name));
    }
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return "";
}

}  // namespace poptorch
