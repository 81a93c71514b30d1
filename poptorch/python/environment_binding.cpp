// Questions about the hardware, the level of the log, and trace points.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>

#include "aspen/base/log_repeats.h"
#include "poptorch/environment.h"
#include "poptorch/error.h"
#include "poptorch/model/ipus.h"
#include "poptorch/profiling.h"
#include "poptorch/python/arguments.h"
#include "poptorch/python/bindings.h"

namespace py = pybind11;

namespace poptorch {
namespace {

void set_log_level(const py::object& level) {
  if (is_text(level)) return setLogLevel(level.cast<std::string>());
  if (is_integer(level) && !PyBool_Check(level.ptr())) return setLogLevel(level.cast<int>());
  throw ValueError(fmt::format("A log level is a name or a number, not {}", repr_of(level)));
}

// A trace point that lasts as long as a with statement.
class PythonTracepoint {
 public:
  PythonTracepoint(std::string channel, std::string name) : channel_(std::move(channel)), name_(std::move(name)) {}
  void enter() { point_.emplace(channel_, name_); }
  void exit(const py::args&) { point_.reset(); }

 private:
  std::string channel_, name_;
  std::optional<profiling::Tracepoint> point_;
};

}  // namespace

void bind_environment(py::module_& module) {
  module.def("isRunningOnIpu", &isRunningOnIpu, "True while the forward of a wrapped model is captured.");
  module.def(
      "getIpuTensorId",
      [](const py::object& tensor) { return getIpuTensorId(tensor_argument("getIpuTensorId", tensor)); },
      py::arg("tensor"), "A number for the contents of a tensor of the model that is being captured.");
  module.def("ipuHardwareIsAvailable", &ipuHardwareIsAvailable, py::arg("num_ipus") = 1,
             "Whether there is a device of so many IPUs. Virtual IPUs are the hardware here.");
  module.def("ipuHardwareVersion", &ipuHardwareVersion, "The generation the virtual IPUs stand for.");
  module.def("is_tracing", &profiling::isTracing);
  py::class_<PythonTracepoint>(module, "Tracepoint")
      .def(py::init<std::string, std::string>(), py::arg("channel"), py::arg("name"))
      .def("__enter__", &PythonTracepoint::enter)
      .def("__exit__", &PythonTracepoint::exit);
  module.def("is_wanted_in_log", &aspen::log::is_wanted, py::arg("line"));
  module.def("set_log_level", &set_log_level, py::arg("level"));
}

}  // namespace poptorch
