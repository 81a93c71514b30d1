#include "poptorch/python/convert.h"

#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>

#include "aspen/base/error.h"

namespace py = pybind11;

namespace poptorch {
namespace {

// Takes the entry out of the dictionary, so that what is left over is unknown.
template <class T>
void take(py::dict& from, const char* key, T& into) {
  if (!from.contains(key)) return;
  into = from[key].cast<T>();
  from.attr("pop")(key);
}

void check_empty(const py::dict& rest, const char* what) {
  for (const auto& [key, value] : rest) {
    throw aspen::UserError("[compile] {} have no entry \"{}\".", what, py::str(key).cast<std::string>());
  }
}

aspen::OptimizerSpec::Group optimizer_group(py::dict group, std::vector<float>& settings) {
  aspen::OptimizerSpec::Group made;
  take(group, "parameters", made.parameters);
  take(group, "momentum", made.momentum);
  take(group, "nesterov", made.nesterov);
  take(group, "settings", settings);
  check_empty(group, "optimizer groups");
  return made;
}

void read_optimizer(py::dict optimizer, CompileSettings& settings) {
  aspen::OptimizerSpec& spec = settings.optimizer;
  take(optimizer, "kind", spec.kind);
  take(optimizer, "bias_correction", spec.bias_correction);
  take(optimizer, "centered", spec.centered);
  take(optimizer, "tf_variant", spec.tf_variant);
  take(optimizer, "max_grad_norm", spec.max_grad_norm);
  take(optimizer, "scales_loss", spec.scales_loss);
  std::vector<py::dict> groups;
  take(optimizer, "groups", groups);
  for (const py::dict& group : groups) {
    spec.groups.push_back(optimizer_group(py::dict(group.attr("copy")()), settings.settings.emplace_back()));
  }
  check_empty(optimizer, "optimizers");
}

}  // namespace

py::object dtype_object(c10::ScalarType type) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(type)));
}

aspen::OutputMode output_mode(int number) {
  if (number < 0 || number > static_cast<int>(aspen::OutputMode::kSum)) {
    throw aspen::UserError("[run] {} is no output mode; expected 0 Final, 1 EveryN, 2 All or 3 Sum.", number);
  }
  return static_cast<aspen::OutputMode>(number);
}

CompileSettings compile_settings(const py::dict& options) {
  py::dict rest(options.attr("copy")());
  CompileSettings settings;
  take(rest, "gradient_accumulation", settings.gradient_accumulation);
  take(rest, "mean_reduction", settings.mean_reduction);
  take(rest, "seed", settings.seed);
  take(rest, "backend", settings.backend);
  if (rest.contains("optimizer") && !rest["optimizer"].is_none()) {
    read_optimizer(py::dict(rest["optimizer"].attr("copy")()), settings);
  }
  if (rest.contains("optimizer")) rest.attr("pop")("optimizer");
  check_empty(rest, "options");
  return settings;
}

}  // namespace poptorch
