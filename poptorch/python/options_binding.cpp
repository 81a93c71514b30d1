// Options for Python: the store of settings, the table of setters that its classes are made from, and the rules that
// follow from settings.
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/utils/pybind.h>

#include "poptorch/api/batching.h"
#include "poptorch/api/compile_settings.h"
#include "poptorch/api/option_setters.h"
#include "poptorch/model/ipus.h"
#include "poptorch/python/bindings.h"
#include "poptorch/python/convert.h"

namespace py = pybind11;

namespace poptorch {
namespace {

// -- values -----------------------------------------------------------------------------------------------------------
OptionValue from_python(py::handle value);

ForeignObject foreign(py::handle value) {
  std::shared_ptr<void> kept(value.inc_ref().ptr(), [](void* object) {
    py::gil_scoped_acquire gil;
    py::handle(static_cast<PyObject*>(object)).dec_ref();
  });
  return {kept, py::repr(value).cast<std::string>()};
}

OptionValue from_integer(py::handle value) {
  const py::handle type = py::type::handle_of(value);
  if (!PyLong_CheckExact(value.ptr()) && py::str(type.attr("__module__")).cast<std::string>() == "poptorch.enums") {
    return EnumMember{type.attr("__name__").cast<std::string>(), value.cast<std::int64_t>()};
  }
  int overflow = 0;
  const std::int64_t number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow == 0) return number;
  const std::uint64_t large = PyLong_AsUnsignedLongLong(value.ptr());
  if (PyErr_Occurred() == nullptr) return large;
  PyErr_Clear();
  return foreign(value);
}

OptionValue from_dict(py::handle value) {
  OptionDict made;
  for (const auto& [key, entry] : py::reinterpret_borrow<py::dict>(value)) {
    const OptionValue name = from_python(key);
    if (const auto* text = name.as<std::string>()) {
      made[*text] = from_python(entry);
    } else if (name.is_integer()) {
      made[name.integer()] = from_python(entry);
    } else {
      return foreign(value);
    }
  }
  return made;
}

OptionValue from_dtype(py::handle value) {
  const auto type = reinterpret_cast<THPDtype*>(value.ptr())->scalar_type;
  if (type != c10::ScalarType::Half && type != c10::ScalarType::Float) return foreign(value);
  return EnumMember{"dtype", static_cast<std::int64_t>(type)};
}

bool is_list(PyObject* object) {
  return PyList_Check(object) || PyTuple_Check(object) || PyAnySet_Check(object) || PyDictViewSet_Check(object) ||
         PyIter_Check(object);
}

OptionValue from_python(py::handle value) {
  PyObject* object = value.ptr();
  if (value.is_none()) return {};
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) return from_integer(value);
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (PyUnicode_Check(object)) return value.cast<std::string>();
  if (PyDict_Check(object)) return from_dict(value);
  if (THPDtype_Check(object)) return from_dtype(value);
  if (py::isinstance<LocationEntries>(value)) return value.cast<LocationEntries>();
  if (is_list(object)) {
    OptionList made;
    for (const py::handle item : py::reinterpret_borrow<py::iterable>(value)) made.push_back(from_python(item));
    return made;
  }
  if (py::hasattr(value, "__fspath__")) return py::str(value.attr("__fspath__")()).cast<std::string>();
  if (py::hasattr(value, "_location_entries")) return value.attr("_location_entries")().cast<LocationEntries>();
  return foreign(value);
}

OptionList list_from_python(const py::iterable& values) {
  OptionList made;
  for (const py::handle value : values) made.push_back(from_python(value));
  return made;
}

py::object to_python(const OptionValue& value);

struct ToPython {
  py::object operator()(std::monostate) const { return py::none(); }
  py::object operator()(const EnumMember& member) const {
    if (member.type == "dtype") return dtype_object(static_cast<c10::ScalarType>(member.value));
    return py::module_::import("poptorch.enums").attr(member.type.c_str())(member.value);
  }
  py::object operator()(const OptionList& values) const {
    py::list made;
    for (const OptionValue& value : values) made.append(to_python(value));
    return made;
  }
  py::object operator()(const OptionDict& entries) const {
    py::dict made;
    for (const auto& [key, value] : entries) {
      made[std::visit([](const auto& name) { return py::object(py::cast(name)); }, key)] = to_python(value);
    }
    return made;
  }
  py::object operator()(const ForeignObject& foreign) const {
    return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(foreign.object.get()));
  }
  template <class T>
  py::object operator()(const T& value) const {
    return py::cast(value);
  }
};

py::object to_python(const OptionValue& value) { return std::visit(ToPython(), value.data); }

py::dict group_to_python(const OptionStore& store, const std::string& group) {
  py::dict made;
  for (const auto& [key, value] : store.group(group)) made[key.c_str()] = to_python(value);
  return made;
}

LocationEntries location_entries(const OptionStore& store) {
  LocationEntries made;
  for (const auto& [key, value] : store.group(kLocationSettings)) made.entries[key] = value.integer();
  return made;
}

// -- the store --------------------------------------------------------------------------------------------------------
py::dict state_of(const OptionStore& store) {
  py::dict state;
  for (const auto& [group, values] : store.groups()) state[group.c_str()] = group_to_python(store, group);
  return state;
}

OptionStore from_state(const py::dict& state) {
  OptionStore store;
  for (const auto& [group, values] : state) {
    for (const auto& [key, value] : values.cast<py::dict>()) {
      store.put(group.cast<std::string>(), key.cast<std::string>(), from_python(value));
    }
  }
  return store;
}

void bind_store(py::module_& module) {
  [[maybe_unused]] const py::class_<LocationEntries> entries(module, "LocationEntries");
  py::class_<OptionStore, std::shared_ptr<OptionStore>>(module, "OptionStore")
      .def(py::init<>())
      .def_static("with_defaults", &OptionStore::with_defaults)
      .def("exists", &OptionStore::exists, py::arg("group"), py::arg("key"))
      .def("get", [](const OptionStore& store, const std::string& group,
                     const std::string& key) { return to_python(store.get(group, key)); })
      .def("set", [](OptionStore& store, const std::string& group, const std::string& key,
                     py::handle value) { store.set(group, key, from_python(value)); })
      .def("create_or_set", [](OptionStore& store, const std::string& group, const std::string& key,
                               py::handle value) { store.create_or_set(group, key, from_python(value)); })
      .def("erase", &OptionStore::erase, py::arg("group"), py::arg("key"))
      .def("apply", [](OptionStore& store, const std::string& group, const std::string& setter,
                       const py::iterable& arguments) { store.apply(group, setter, list_from_python(arguments)); })
      .def("apply_accessor", [](OptionStore& store, const std::string& accessor,
                                const py::iterable& arguments) { store.apply(accessor, list_from_python(arguments)); })
      .def("group", &group_to_python, py::arg("name"))
      .def("location_entries", &location_entries)
      .def("entries", &OptionStore::entries, py::arg("group"))
      .def("to_string", &OptionStore::to_string, py::arg("strategy"))
      .def("__deepcopy__", [](const OptionStore& store, const py::dict&) { return OptionStore(store); })
      .def(py::pickle(&state_of, &from_state));
}

// (group, name, [(parameter, None or (default,))], help)
py::list setters() {
  py::list made;
  for (const Setter& setter : option_setters()) {
    py::list parameters;
    for (const SetterParameter& parameter : setter.parameters) {
      py::object standard = py::none();
      if (parameter.standard) standard = py::make_tuple(to_python(*parameter.standard));
      parameters.append(py::make_tuple(parameter.name, standard));
    }
    made.append(py::make_tuple(setter.group, setter.name, parameters, setter.help));
  }
  return made;
}

py::list calls_in_json(const std::string& text) {
  py::list made;
  for (const auto& [accessor, arguments] : json_calls(text, "from_json")) {
    made.append(py::make_tuple(accessor, to_python(arguments)));
  }
  return made;
}

// -- what follows from the settings -----------------------------------------------------------------------------------
void bind_rules(py::module_& module) {
  module.def("check_options", &check_options, py::arg("options"));
  module.def("scales_loss_automatically", &scales_loss_automatically, py::arg("options"));
  module.def("micro_batches", [](const OptionStore& options, bool training) {
    const MicroBatches batches = micro_batches(options, training);
    return py::make_tuple(batches.count, batches.rule);
  });
  module.def("first_micro_batch",
             [](const std::string& name, const at::Tensor& input, std::int64_t count, const std::string& rule) {
               return first_micro_batch(name, input, {count, rule});
             });
  module.def("resolve_output_mode", &resolve_output_mode, py::arg("options"), py::arg("training"));
  module.def("check_inference", &check_inference, py::arg("options"), py::arg("strategy"));
  module.def("check_written_buffers", &check_written_buffers, py::arg("options"), py::arg("written"),
             py::arg("statistics"));
  module.def("check_updatable_buffers", &check_updatable_buffers, py::arg("options"), py::arg("buffers"));
  module.def("check_may_attach", &check_may_attach, py::arg("options"));
  module.def("check_may_group", &check_may_group, py::arg("name"), py::arg("parameter"), py::arg("is_compiled"));
  module.def("attaches_when_compiled", &attaches_when_compiled, py::arg("options"));
  module.def("is_profiled", &is_profiled, py::arg("options"));
  module.def("required_ipus", [](const OptionStore& options, const std::set<std::int64_t>& used) {
    return required_ipus(ipu_request(options, used));
  });
}

// -- for tests --------------------------------------------------------------------------------------------------------
py::dict location(const aspen::TensorLocation& told) {
  return py::dict(py::arg("off_device") = told.off_device, py::arg("sharded") = told.sharded,
                  py::arg("min_elements") = told.min_elements, py::arg("min_shard_elements") = told.min_shard_elements);
}

// What the compiler is told.
py::dict compile_options(const OptionStore& options, const ExecutionStrategy& strategy, bool training,
                         const std::set<std::int64_t>& ipus) {
  const aspen::CompileOptions told = compile_settings(options, strategy, training, ipus).options;
  constexpr const char* kExecutions[] = {"pipelined", "sharded", "phased"};
  constexpr const char* kRecomputes[] = {"nothing", "stages", "norms", "all"};
  constexpr const char* kLivenesses[] = {"always", "off_device_after_forward", "off_device_after_forward_no_overlap",
                                         "off_device_after_each_phase"};
  py::dict made;
  made["gradient_accumulation"] = told.gradient_accumulation;
  made["device_iterations"] = told.device_iterations;
  made["mean_reduction"] = told.mean_reduction;
  made["running_mean"] = told.running_mean;
  made["checks_floats"] = told.checks_floats;
  made["prefetch_depth"] = told.prefetch_depth;
  made["replicas"] = told.replicas;
  made["execution"] = kExecutions[static_cast<int>(told.execution)];
  made["recompute"] = kRecomputes[static_cast<int>(told.recompute)];
  if (told.execution == aspen::Execution::kPhased) made["liveness"] = kLivenesses[static_cast<int>(told.liveness)];
  made["separate_backward_phase"] = told.separate_backward_phase;
  made["weights"] = location(told.locations.weights);
  made["optimizer_state"] = location(told.locations.optimizer_state);
  made["accumulators"] = location(told.locations.accumulators);
  made["activations"] = location(told.locations.activations);
  made["input_grouping"] = py::make_tuple(static_cast<int>(told.input_grouping.kind), told.input_grouping.size,
                                          told.input_grouping.returns_all);
  return made;
}

}  // namespace

void bind_options(py::module_& module) {
  bind_store(module);
  bind_rules(module);
  module.def("option_setters", &setters);
  module.def("json_calls", &calls_in_json, py::arg("text"));
  module.def("compile_options", &compile_options, py::arg("options"), py::arg("strategy"), py::arg("training"),
             py::arg("ipus"));
}

}  // namespace poptorch
