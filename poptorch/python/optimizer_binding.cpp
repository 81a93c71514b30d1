// Optimisers of Python: reads the objects into plain descriptions, and gives the executor its DeviceOptimizer.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "poptorch/error.h"
#include "poptorch/model/device_optimizer.h"
#include "poptorch/model/optimizer_attributes.h"
#include "poptorch/python/bindings.h"

namespace py = pybind11;

namespace poptorch {
namespace {

using optim::Numbers, optim::Shared, optim::VariableAttributes;

// Attributes of an optimiser and keys of its groups that never reach a device.
const std::set<std::string> kHostOnly{"params",
                                      "foreach",
                                      "maximize",
                                      "capturable",
                                      "differentiable",
                                      "fused",
                                      "amsgrad",
                                      "defaults",
                                      "state",
                                      "param_groups",
                                      "step",
                                      "variable_attrs",
                                      "velocity_scaling",
                                      "decoupled_weight_decay"};
const std::set<std::string> kShared{"loss_scaling",
                                    "max_grad_norm",
                                    "bias_correction",
                                    "use_tf_variant",
                                    "use_combined_accum",
                                    "accum_type",
                                    "velocity_accum_type",
                                    "first_order_momentum_accum_type",
                                    "second_order_momentum_accum_type"};

std::string shown(const py::handle value) { return py::repr(value).cast<std::string>(); }

double number(const char* name, py::object value) {
  if (THPVariable_Check(value.ptr()) && value.attr("numel")().cast<std::int64_t>() == 1) value = value.attr("item")();
  if (!PyFloat_Check(value.ptr()) && !PyLong_Check(value.ptr())) {
    throw ArgumentError(fmt::format("Optimiser attribute {} must be a number, not {}", name, shown(value)));
  }
  return value.cast<double>();
}

void read(const char* name, const py::object& value, double& into) { into = number(name, value); }
void read(const char* name, const py::object& value, bool& into) { into = number(name, value) != 0; }
void read(const char* name, const py::object& value, Attribute::Pair& into) {
  if ((!PyTuple_Check(value.ptr()) && !PyList_Check(value.ptr())) || py::len(value) != 2) {
    throw ArgumentError(fmt::format("{} must be two numbers, not {}", name, shown(value)));
  }
  into = {number(name, value[py::int_(0)]), number(name, value[py::int_(1)])};
}

optim::Group read_group(optim::Kind kind, const py::dict& group) {
  optim::Group made{default_numbers(kind), group["params"].cast<std::vector<at::Tensor>>()};
  for (const Attribute& attribute : attributes_of(kind)) {
    const py::object value = group[attribute.name];
    if (value.is_none() && std::string_view(attribute.name) == "max_weight_norm") continue;  // the default
    std::visit([&](auto member) { read(attribute.name, value, made.*member); }, attribute.member);
  }
  const auto is_set = [&](const char* name) { return group.contains(name) && py::bool_(group[name]); };
  made.amsgrad = is_set("amsgrad");
  made.maximize = is_set("maximize");
  return made;
}

at::ScalarType dtype_of(const char* name, const py::handle value) {
  if (!THPDtype_Check(value.ptr())) throw ArgumentError(fmt::format("{} must be a dtype, not {}", name, shown(value)));
  return reinterpret_cast<THPDtype*>(value.ptr())->scalar_type;
}

// Optimisers of torch have none of these.
Shared read_shared(const py::object& optimizer) {
  Shared shared;
  const auto take = [&](const char* name, const auto& use) {
    if (py::hasattr(optimizer, name)) use(optimizer.attr(name));
  };
  const auto take_type = [&](const char* name, at::ScalarType& type) {
    take(name, [&](const py::object& value) { type = dtype_of(name, value); });
  };
  take("loss_scaling", [&](const py::object& value) { shared.loss_scaling = number("loss_scaling", value); });
  take("max_grad_norm", [&](const py::object& value) { shared.max_grad_norm = number("max_grad_norm", value); });
  take("bias_correction", [&](const py::object& value) { shared.bias_correction = py::bool_(value); });
  take("use_tf_variant", [&](const py::object& value) { shared.use_tf_variant = py::bool_(value); });
  take("use_combined_accum", [&](const py::object& value) { shared.use_combined_accum = py::bool_(value); });
  take_type("accum_type", shared.accum_type);
  take_type("velocity_accum_type", shared.velocity_accum_type);
  take_type("first_order_momentum_accum_type", shared.first_order_momentum_accum_type);
  take_type("second_order_momentum_accum_type", shared.second_order_momentum_accum_type);
  return shared;
}

// Names that play no role on the device.
std::vector<std::string> extras_of(optim::Kind kind, const py::object& optimizer, const py::list& groups) {
  std::set<std::string> known(kHostOnly);
  known.insert(kShared.begin(), kShared.end());
  for (const Attribute& attribute : attributes_of(kind)) known.insert(attribute.name);
  std::vector<std::string> extras;
  const auto collect = [&](const py::handle names, const std::string& prefix) {
    for (const py::handle entry : names) {
      const auto name = py::str(entry).cast<std::string>();
      if (!name.starts_with("_") && !known.contains(name)) extras.push_back(prefix + name);
    }
  };
  collect(optimizer.attr("__dict__"), "optimizer attribute ");
  for (std::size_t i = 0; i < groups.size(); ++i) collect(groups[i], fmt::format("group {} attribute ", i));
  return extras;
}

optim::Kind kind_of(const std::string& name) {
  if (const auto kind = kind_named(name)) return *kind;
  throw ArgumentError(fmt::format("\"{}\" is no kind of optimiser", name));
}

OptimizerDescription describe(const std::string& kind, const py::object& optimizer,
                              std::optional<VariableAttributes> variable_attributes,
                              std::shared_ptr<OptimizerState> state) {
  OptimizerDescription made;
  made.kind = kind_of(kind);
  const py::list groups = optimizer.attr("param_groups");
  for (const py::handle group : groups) made.groups.push_back(read_group(made.kind, group.cast<py::dict>()));
  made.shared = read_shared(optimizer);
  made.variable_attributes = std::move(variable_attributes);
  made.state = std::move(state);
  made.extras = extras_of(made.kind, optimizer, groups);
  return made;
}

py::dict default_attributes(const std::string& kind) {
  const Numbers numbers = default_numbers(kind_of(kind));
  py::dict made;
  for (const Attribute& attribute : attributes_of(kind_of(kind))) {
    std::visit([&](auto member) { made[attribute.name] = numbers.*member; }, attribute.member);
  }
  return made;
}

void load(OptimizerState& state, const std::string& kind, const py::list& groups,
          std::optional<optim::Tensors> ipu_state, std::optional<optim::Tensors> ipu_param) {
  std::vector<Numbers> numbers;
  for (const py::handle group : groups) numbers.push_back(read_group(kind_of(kind), group.cast<py::dict>()));
  state.load(std::move(ipu_state), std::move(ipu_param), std::move(numbers));
}

// As Optimizer::stateDict().save(file) of C++ would.
void save_state(const OptimizerDescription& optimizer, const std::string& file) {
  optim::StateDict saved{.kind = optimizer.kind};
  for (const optim::Group& group : optimizer.groups) saved.groups.push_back({group, group.parameters.size()});
  const OptimizerState::Contents contents = optimizer.state->read();
  saved.ipu_state = contents.ipu_state;
  saved.ipu_param = contents.ipu_param;
  saved.save(file);
}

std::set<std::string> names_in(const py::iterable& names) {
  std::set<std::string> made;
  for (const py::handle name : names) made.insert(name.cast<std::string>());
  return made;
}

void bind_state(py::module_& module) {
  using Contents = OptimizerState::Contents;
  using Saved = std::tuple<std::optional<optim::Tensors>, std::optional<optim::Tensors>, bool, bool>;
  py::class_<OptimizerState, std::shared_ptr<OptimizerState>>(module, "OptimizerState")
      .def(py::init<>())
      .def("read",
           [](OptimizerState& state) {
             Contents contents = state.read();
             return std::make_pair(std::move(contents.ipu_state), std::move(contents.ipu_param));
           })
      .def("copied", &OptimizerState::copied)
      .def("load", &load, py::arg("kind"), py::arg("groups"), py::arg("state"), py::arg("param"))
      .def_property_readonly("ipu_state", [](const OptimizerState& state) { return state.contents.ipu_state; })
      .def_property_readonly("ipu_param", [](const OptimizerState& state) { return state.contents.ipu_param; })
      .def_property_readonly("has_state_to_upload",
                             [](const OptimizerState& state) { return state.contents.has_state_to_upload; })
      .def(py::pickle(
          [](OptimizerState& state) {
            const Contents copy = state.copied()->contents;
            return Saved(copy.ipu_state, copy.ipu_param, copy.has_state_to_upload, copy.has_param_to_upload);
          },
          [](const Saved& saved) {
            const auto& [state, param, has_state, has_param] = saved;
            return std::make_shared<OptimizerState>(Contents{state, param, has_state, has_param, {}});
          }));
}

}  // namespace

void bind_optimizers(py::module_& module) {
  using Names = std::pair<std::set<std::string>, std::set<std::string>>;
  py::class_<VariableAttributes>(module, "VariableAttributes",
                                 "The attributes of an optimiser that may be changed after compilation, through "
                                 "setOptimizer.")
      .def(py::init([](const py::iterable& variable, const py::iterable& allowed) {
             return VariableAttributes(names_in(variable), names_in(allowed));
           }),
           py::arg("variable_attributes"), py::arg("allowed_attributes"))
      .def("isConstant", &VariableAttributes::isConstant, py::arg("attr"),
           "Whether the attribute is a part of the program.")
      .def("markAsConstant", &VariableAttributes::markAsConstant, py::arg("attr"),
           "Makes the attribute a part of the program: it cannot change once the model is compiled.")
      .def("markAsVariable", &VariableAttributes::markAsVariable, py::arg("attr"),
           "Lets setOptimizer change the attribute.")
      .def(py::pickle([](const VariableAttributes& from) { return Names(from.variable(), from.allowed()); },
                      [](const Names& names) { return VariableAttributes(names.first, names.second); }));
  bind_state(module);
  [[maybe_unused]] const py::class_<OptimizerDescription> description(module, "OptimizerDescription");
  [[maybe_unused]] const py::class_<OptimizerProgram> program(module, "OptimizerProgram");
  module.def("describe_optimizer", &describe, py::arg("kind"), py::arg("optimizer"), py::arg("variable_attributes"),
             py::arg("state"));
  // For tests: that Python reads the files of C++.
  module.def("save_optimizer_state", &save_state, py::arg("optimizer"), py::arg("file"));
  module.def("optimizer_defaults", &default_attributes, py::arg("kind"));
  module.def(
      "check_accum_type",
      [](const std::string& name, const py::object& type) {
        check_accum_type(name.c_str(), dtype_of(name.c_str(), type));
      },
      py::arg("name"), py::arg("dtype"));
  py::class_<DeviceOptimizer, std::shared_ptr<DeviceOptimizer>>(module, "DeviceOptimizer")
      .def(py::init([](py::function turn, bool relaxed, bool automatic_loss_scaling) {
             return std::make_shared<DeviceOptimizer>(python_turn(std::move(turn)), relaxed, automatic_loss_scaling);
           }),
           py::arg("turn"), py::arg("relaxed"), py::arg("automatic_loss_scaling"))
      .def("replace", &DeviceOptimizer::replace, py::arg("optimizer"))
      .def("needs_running_mean", &DeviceOptimizer::needs_running_mean)
      .def("compiled", &DeviceOptimizer::compiled, py::arg("model"))
      .def("change", &DeviceOptimizer::change, py::arg("optimizer"));
}

}  // namespace poptorch
