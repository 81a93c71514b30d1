#include "poptorch/python/errors.h"

#include <c10/util/Exception.h>

#include "poptorch/api/guarded.h"

namespace py = pybind11;

namespace poptorch {
namespace {

// The module poptorch.errors: our kinds of error have their classes there. Never destroyed: the interpreter may be
// gone by then.
py::object& error_classes() {
  static auto* module = new py::object(py::none());
  return *module;
}

void raise(const py::object& error) { PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr()); }

py::object make_error(const Error& error) {
  if (error_classes().is_none()) return py::reinterpret_borrow<py::object>(PyExc_RuntimeError)(error.what());
  const py::object& classes = error_classes();
  if (const auto* recoverable = dynamic_cast<const RecoverableError*>(&error)) {
    return classes.attr("RecoverableError")(error.message(), error.type(), error.location(),
                                            recoverable->recoveryAction());
  }
  const bool is_unrecoverable = dynamic_cast<const UnrecoverableError*>(&error) != nullptr;
  return classes.attr(is_unrecoverable ? "UnrecoverableError" : "Error")(error.message(), error.type(),
                                                                         error.location());
}

py::object own_error(const aspen::Error& error) {
  try {
    throw_as_own(error);
  } catch (const Error& own) {
    return make_error(own);
  }
}

}  // namespace

void set_error_classes(const py::object& module) { error_classes() = module; }

namespace {

// Our own errors; others go on.
void translate_own(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const ArgumentError& error) {
    PyErr_SetString(PyExc_AssertionError, error.what());
  } catch (const ValueError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const ConfigFileError& error) {
    raise(error_classes().attr("ConfigFileError")(error.what()));
  } catch (const Error& error) {
    raise(make_error(error));
  } catch (const aspen::Error& error) {
    raise(own_error(error));
  }
}

void translate_all(std::exception_ptr pointer) {
  try {
    translate_own(std::move(pointer));
  } catch (const py::builtin_exception&) {
    throw;  // meant as the exception of Python that it names
  } catch (const c10::Error& error) {
    raise(make_error(Error(error.what_without_backtrace(), "torch_error")));
  } catch (const std::logic_error& error) {
    raise(make_error(Error(error.what(), "std::exception")));
  } catch (const std::bad_alloc&) {
    raise(make_error(Error("there is not enough memory.", "std::exception")));
  }
}

}  // namespace

// Ours are translated wherever they come out, also of ops that are called through torch. What torch and the standard
// library raise in functions of other modules stays what it is.
void register_error_translation() {
  py::register_exception_translator(translate_own);
  py::register_local_exception_translator(translate_all);
}

void rethrow_as_our_own(py::error_already_set& error, const std::string& text) {
  if (text.empty() || !error.matches(PyExc_RuntimeError)) return;
  const std::string shown = py::str(error.value()).cast<std::string>();
  // Torch appends a C++ backtrace to some errors.
  if (shown.compare(0, text.size(), text) != 0) return;
  py::object cause = error.value();
  if (error.trace()) cause.attr("__traceback__") = error.trace();
  py::object own = own_error(aspen::UserError("{}", text));
  own.attr("__cause__") = cause;
  raise(own);
  throw py::error_already_set();
}

}  // namespace poptorch
