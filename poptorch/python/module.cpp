// poptorch_core: what the Python package needs of the C++ library, as thin as it can be. The one place where C++
// errors become Python exceptions.
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "aspen/compiler/placement/part_costs.h"
#include "poptorch/api/capture_context.h"
#include "poptorch/api/compile_settings.h"
#include "poptorch/api/spelling.h"
#include "poptorch/api/stage_blocks.h"
#include "poptorch/capture/call.h"
#include "poptorch/capture/dispatch.h"
#include "poptorch/capture/host_work.h"
#include "poptorch/capture/recorder.h"
#include "poptorch/model/lowered_optimizer.h"
#include "poptorch/model/model.h"
#include "poptorch/model/summary.h"
#include "poptorch/python/bindings.h"
#include "poptorch/python/convert.h"
#include "poptorch/python/errors.h"
#include "poptorch/python/source_lines.h"

namespace py = pybind11;

namespace poptorch {
namespace {

// Runs the Python forward. An error of ours that came through the interpreter is raised as what it was. Returns the
// results and the IPU of each block.
py::tuple capture(Model& model, const py::function& forward, const std::vector<at::Tensor>& inputs,
                  const std::vector<std::string>& names, const OptionStore& options, const ExecutionStrategy& strategy,
                  bool training) {
  const auto call_forward = [&](const std::vector<at::Tensor>& traced) {
    py::tuple arguments(traced.size());
    for (std::size_t i = 0; i < traced.size(); ++i) arguments[i] = traced[i];
    try {
      return forward(*arguments).cast<std::vector<at::Tensor>>();
    } catch (py::error_already_set& error) {
      rethrow_as_our_own(error, Recorder::current()->last_error());
      throw;
    }
  };
  const CaptureContext context(capture_rules(options, strategy, training), model);
  py::list results;
  const std::vector<ModelOutput> outputs = model.capture(call_forward, inputs, names);
  context.check_overlap();
  for (const ModelOutput& output : outputs) {
    if (output.in_graph) {
      const py::tuple shape(py::cast(output.shape));
      results.append(py::make_tuple("graph", output.index, dtype_object(output.dtype), shape));
    } else {
      results.append(py::make_tuple("host", output.host));
    }
  }
  return py::make_tuple(results, context.ipus());
}

// optimizer: of DeviceOptimizer.compiled; nullptr for inference.
void compile(Model& model, bool training, const OptionStore& options, const ExecutionStrategy& strategy,
             const std::set<std::int64_t>& ipus, const OptimizerProgram* optimizer, const py::object& progress) {
  CompileSettings settings = compile_settings(options, strategy, training, ipus);
  if (optimizer != nullptr) add_optimizer(settings, *optimizer);
  if (!progress.is_none()) {
    // By reference: settings are copied without the GIL.
    settings.options.progress = [&progress](double fraction) {
      py::gil_scoped_acquire gil;
      progress(fraction);
    };
  }
  try {
    py::gil_scoped_release no_gil;  // other threads of the program go on
    model.compile(settings);
    log_stage_blocks(model);
  } catch (python_error& error) {  // out of a backward pass or a hook of the user's
    error.restore();
    py::error_already_set raised;
    rethrow_as_our_own(raised, model.last_capture_error());
    throw raised;
  }
}

void add_grouped_parameter(Model& model, const std::string& name, const at::Tensor& tensor, const at::Tensor& seen,
                           const py::tuple& grouping, std::size_t replicas) {
  model.add_grouped_parameter(name, tensor, seen, replica_grouping(grouping), replicas);
}

// A call that may have to wait for a run in another thread, which needs the interpreter to ask for signals.
template <class Call>
auto without_gil(const Call& call) {
  py::gil_scoped_release no_gil;
  return call();
}

// For tests and benchmarks: one dictionary per replica and device.
py::list times(const Model& model) {
  py::list list;
  for (const aspen::DeviceTime& time : without_gil([&] { return model.times(); })) {
    py::list tasks;
    for (const auto& task : time.tasks) {
      tasks.append(
          py::dict(py::arg("task") = task.task, py::arg("runs") = task.runs, py::arg("seconds") = task.seconds));
    }
    list.append(py::dict(py::arg("replica") = time.replica, py::arg("device") = time.device,
                         py::arg("total") = time.total, py::arg("waiting") = time.waiting, py::arg("tasks") = tasks));
  }
  return list;
}

py::list memory(const Model& model) {
  py::list list;
  for (const aspen::DeviceMemory& bytes : without_gil([&] { return model.memory(); })) {
    list.append(py::dict(
        py::arg("replica") = bytes.replica, py::arg("device") = bytes.device, py::arg("planned") = bytes.planned,
        py::arg("measured") = bytes.measured, py::arg("planned_host") = bytes.planned_host,
        py::arg("measured_host") = bytes.measured_host, py::arg("variables") = bytes.parts.variable_bytes,
        py::arg("constants") = bytes.parts.constant_bytes, py::arg("scratch") = bytes.parts.scratch_bytes,
        py::arg("packed") = bytes.parts.packed_bytes, py::arg("slots") = bytes.slot_bytes,
        py::arg("host_variables") = bytes.parts.host_variable_bytes, py::arg("host_slots") = bytes.host_slot_bytes));
  }
  return list;
}

// Parts that a stage may begin with, each with its module and the part of its last call.
py::list stage_begins(const Model& model) {
  py::list begins;
  const auto& costs = model.part_costs().parts;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const auto& [module, last_call] = model.stage_parts()[i];
    if (costs[i].may_begin_stage) begins.append(py::make_tuple(i, module, last_call));
  }
  return begins;
}

void bind_model(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;  // for what may wait for a run in another thread
  py::class_<Model, std::shared_ptr<Model>>(module, "Model")
      .def(py::init<bool>(), py::arg("training"))
      .def("add_tensor", &Model::add_tensor, py::arg("name"), py::arg("tensor"), py::arg("is_parameter"))
      .def("add_grouped_parameter", &add_grouped_parameter, py::arg("name"), py::arg("tensor"), py::arg("seen"),
           py::arg("grouping"), py::arg("replicas"))
      .def("capture", &capture, py::arg("forward"), py::arg("inputs"), py::arg("names"), py::arg("options"),
           py::arg("strategy"), py::arg("training"))
      .def("written_buffers", &Model::written_buffers)
      .def("compile", &compile, py::arg("training"), py::arg("options"), py::arg("strategy"), py::arg("ipus"),
           py::arg("optimizer"), py::arg("progress") = py::none())
      .def("random_state", &Model::random_state, Unlocked())
      .def("set_random_state", &Model::set_random_state, py::arg("seed"), py::arg("step"), Unlocked())
      .def("graph_text", &Model::graph_text)
      .def("times", &times)
      .def("memory", &memory)
      .def("stage_blocks", &stage_blocks)
      .def("stage_nanoseconds",
           [](const Model& model, const std::vector<std::int64_t>& begins) {
             return model.part_costs().stage_times(begins);
           })
      .def("stage_begins", &stage_begins)
      .def("host_calls", &Model::host_calls);
}

// Whether each dictionary still holds the very object under that name: (dictionary, name, object). Asked in each call.
bool holds_all(const py::list& parts) {
  for (const py::handle entry : parts) {
    PyObject* part = entry.ptr();  // a tuple
    if (PyDict_GetItem(PyTuple_GET_ITEM(part, 0), PyTuple_GET_ITEM(part, 1)) != PyTuple_GET_ITEM(part, 2)) return false;
  }
  return true;
}

void push_scope(const std::string& name) {
  if (Recorder* recorder = Recorder::current()) recorder->push_scope(name);
}

// `written`: the module as the user writes it.
void enter_module(const std::string& written) {
  if (Recorder* recorder = Recorder::current()) recorder->enter_module(written);
}

void pop_scope() {
  if (Recorder* recorder = Recorder::current()) recorder->pop_scope();
}

// The interpreter forgets a thread it has not started, with any error in it, as soon as the thread lets go of the GIL;
// not while somebody has asked for the thread's state.
std::shared_ptr<void> keep_python_thread() {
  struct Kept {
    PyGILState_STATE state = PyGILState_Ensure();
    PyThreadState* thread = PyEval_SaveThread();
    ~Kept() {
      PyEval_RestoreThread(thread);
      PyGILState_Release(state);
    }
  };
  return std::make_shared<Kept>();
}

std::string take_python_error() {
  py::gil_scoped_acquire gil;
  if (PyErr_Occurred() == nullptr) return "";
  const py::error_already_set error;  // takes it
  return py::str(error.type().attr("__name__")).cast<std::string>() + ": " + py::str(error.value()).cast<std::string>();
}

PYBIND11_MODULE(poptorch_core, module) {
  py::module_::import("torch");  // its types must be known before ours mention them
  register_error_translation();
  set_language(Language::kPython);
  set_source_provider(user_source_line);
  set_foreign_language({.keep_thread = keep_python_thread, .take_error = take_python_error});
  bind_options(module);
  bind_model(module);
  bind_optimizers(module);  // before the session, which holds one
  bind_session(module);
  bind_saved_models(module);
  bind_data_loader(module);
  bind_strategies(module);
  bind_annotations(module);
  bind_ops(module);
  bind_cpu_layers(module);
  bind_custom_ops(module);
  bind_host_ops(module);
  bind_environment(module);
  module.def("is_capturing", [] { return Recorder::current() != nullptr; });
  module.def("is_traced", [](const at::Tensor& tensor) {
    const Recorder* recorder = Recorder::current();
    return recorder != nullptr && recorder->is_traced(tensor);
  });
  module.def("is_of_a_capture", [](const at::Tensor& tensor) { return traced_impl(tensor) != nullptr; });
  module.def("holds_all", &holds_all, py::arg("parts"));
  module.def("summary", &summary, py::arg("names"));
  module.def("push_scope", &push_scope);
  module.def("enter_module", &enter_module);
  module.def("pop_scope", &pop_scope);
  module.def("set_error_classes", &set_error_classes);
  module.def("set_source_excludes", &set_source_excludes);
  module.def("lowered_ops", [] { return handler_table().names(); });
  module.def("used_handlers", [] { return handler_table().used(); });
  module.def("remove_handler", [](const std::string& name) { handler_table().remove(name); });
  module.def("restore_handlers", &restore_handlers);
  register_with_dispatcher();  // as libraries of torch do when they are loaded
}

}  // namespace
}  // namespace poptorch
