// Session and HostWeights for Python. Calls that may have to wait for a run in another thread let go of the GIL, which
// that run needs to ask for signals.
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>

#include "poptorch/api/batching.h"
#include "poptorch/api/call_inputs.h"
#include "poptorch/api/footprint.h"
#include "poptorch/api/perf_counters.h"
#include "poptorch/model/session.h"
#include "poptorch/python/bindings.h"
#include "poptorch/python/convert.h"

namespace py = pybind11;

namespace poptorch {
namespace {

std::unique_ptr<Session> make_session(bool training, std::vector<at::Tensor> tensors, py::function turn,
                                      py::function copy, std::shared_ptr<DeviceOptimizer> optimizer) {
  return std::make_unique<Session>(
      training, std::move(tensors), python_turn(std::move(turn)),
      [copy = shared_object(std::move(copy))] {
        py::gil_scoped_acquire gil;
        (*copy)();
      },
      std::move(optimizer));
}

// True once a signal handler raised (Ctrl-C), after `found` was called. Asks the interpreter at most every 20 ms: it
// costs the GIL.
std::function<bool()> signal_watch(std::function<void()> found) {
  using Clock = std::chrono::steady_clock;
  return [next = Clock::now() + std::chrono::milliseconds(20), found = std::move(found)]() mutable {
    if (Clock::now() < next) return false;
    next = Clock::now() + std::chrono::milliseconds(20);
    py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return false;
    found();
    return true;
  };
}

// Calls `body` without the GIL, with what it has to ask now and then whether to stop.
template <class Body>
auto interruptible(const Body& body) {
  bool is_interrupted = false;
  try {
    py::gil_scoped_release no_gil;
    return body(signal_watch([&] { is_interrupted = true; }));
  } catch (const aspen::Interrupted&) {
    if (is_interrupted) throw py::error_already_set();  // KeyboardInterrupt, set by the signal handler
    throw;
  }
}

std::vector<at::Tensor> run(Session& session, const std::vector<at::Tensor>& inputs) {
  return interruptible([&](const auto& should_stop) { return session.run(inputs, should_stop); });
}

void attach(Session& session) {
  interruptible([&](const auto& should_stop) { session.attach(should_stop); });
}

void reserve(Session& session, const OptionStore& options) {
  interruptible([&](const auto& should_stop) { session.reserve(device_to_take(options), should_stop); });
}

at::Tensor anchored(const Session& session, const OptionStore& options, const std::string& name) {
  check_is_anchored(options, name);
  return session.anchored(name);
}

void adopt(Session& session, std::shared_ptr<Model> model, const OptionStore& options, bool training) {
  session.adopt(std::move(model), call_of(options, training));
}

py::dict counters(const Session& session) {
  PerfCounters counters;
  {
    py::gil_scoped_release no_gil;
    counters = perf_counters(session);
  }
  return py::dict(py::arg("input") = counters.input, py::arg("input_complete") = counters.input_complete,
                  py::arg("output") = counters.output, py::arg("output_complete") = counters.output_complete);
}

py::list footprints(const Session& session) {
  py::list devices;
  for (const MemoryFootprint& device : memory_footprint(session)) {
    py::dict kinds;
    for (const auto& [kind, bytes] : device.kinds) kinds[py::str(kind)] = bytes;
    py::list buffers;
    for (const MemoryBuffer& buffer : device.buffers) {
      buffers.append(py::dict(py::arg("kind") = buffer.kind, py::arg("bytes") = buffer.bytes,
                              py::arg("name") = buffer.name, py::arg("type") = buffer.type,
                              py::arg("always_live") = buffer.always_live));
    }
    devices.append(py::dict(py::arg("kinds") = kinds, py::arg("total") = device.total,
                            py::arg("always_live") = device.always_live, py::arg("off_device") = device.off_device,
                            py::arg("budget") = device.budget, py::arg("buffers") = buffers));
  }
  return devices;
}

template <LatencyOf part>
py::tuple latency_tuple(const Session& session) {
  Latency found;
  {
    py::gil_scoped_release no_gil;
    found = latency(session, part);
  }
  return py::make_tuple(found.minimum, found.maximum, found.average);
}

}  // namespace

std::shared_ptr<py::object> shared_object(py::object object) {
  const auto release = [](py::object* held) {
    py::gil_scoped_acquire gil;
    delete held;
  };
  return {new py::object(std::move(object)), release};
}

HostWeights::Turn python_turn(py::function turn) {
  return [turn = shared_object(std::move(turn))](const std::function<bool()>& body) {
    py::gil_scoped_acquire gil;
    const py::cpp_function unlocked([&body] {
      py::gil_scoped_release no_gil;
      return body();
    });
    return (*turn)(unlocked).cast<bool>();
  };
}

void bind_session(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<HostWeights, std::shared_ptr<HostWeights>>(module, "HostWeights")
      .def_property_readonly("is_stale", &HostWeights::is_stale)
      .def("sync", &HostWeights::sync, Unlocked());
  py::class_<CallInputs>(module, "CallInputs")
      .def(py::init<std::vector<std::string>, const std::vector<at::Tensor>&>(), py::arg("names"), py::arg("tensors"))
      .def("check", &CallInputs::check, py::arg("tensors"))
      .def("raise_mismatch", [](const CallInputs& inputs, std::size_t index, const std::string& given) {
        throw inputs.mismatch(index, given);
      });
  py::class_<Session>(module, "Session")
      .def(py::init(&make_session), py::arg("training"), py::arg("tensors"), py::arg("turn"), py::arg("copy"),
           py::arg("optimizer"))
      .def_property_readonly("weights", &Session::weights)
      .def_property_readonly("is_attached", &Session::is_attached)
      .def("adopt", &adopt, py::arg("model"), py::arg("options"), py::arg("training"))
      .def("require_compiled", [](const Session& session, const char* who) { session.compiled(who); })
      .def("sync_sources", &Session::sync_sources, Unlocked())
      .def("reserve", &reserve, py::arg("options"))
      .def("release_device", &Session::release_device, Unlocked())
      .def("attach", &attach)
      .def("detach", &Session::detach, Unlocked())
      .def("destroy", &Session::destroy, Unlocked())
      .def("run", &run, py::arg("inputs"))
      .def("anchored", &anchored, py::arg("options"), py::arg("name"))
      .def("tensor_names", &Session::tensor_names)
      .def("memory_footprint", &footprints)
      .def("perf_counters", &counters)
      .def("latency", &latency_tuple<LatencyOf::kCall>)
      .def("host_ipu_latency", &latency_tuple<LatencyOf::kHostToIpu>)
      .def("compute_latency", &latency_tuple<LatencyOf::kCompute>)
      .def("ipu_host_latency", &latency_tuple<LatencyOf::kIpuToHost>)
      .def("cycle_count", &cycle_count, py::arg("options"), Unlocked())
      .def("copy_weights_to_host", &Session::copy_weights_to_host, Unlocked())
      .def("copy_weights_to_host_if_needed", &Session::copy_weights_to_host_if_needed, Unlocked())
      .def("copy_weights_to_device", &Session::copy_weights_to_device, Unlocked())
      .def("copy_buffers_to_device", &Session::copy_buffers_to_device, py::arg("names"), Unlocked());
}

}  // namespace poptorch
