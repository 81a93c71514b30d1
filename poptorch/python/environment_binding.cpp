// Questions about the hardware, and the level of the log.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "aspen/base/log_repeats.h"
#include "poptorch/environment.h"
#include "poptorch/error.h"
#include "poptorch/model/ipus.h"
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
  module.def("is_wanted_in_log", &aspen::log::is_wanted, py::arg("line"));
  module.def("set_log_level", &set_log_level, py::arg("level"));
}

}  // namespace poptorch
