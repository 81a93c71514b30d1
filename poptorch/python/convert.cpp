#include "poptorch/python/convert.h"

#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>

#include <map>

#include "aspen/base/error.h"
#include "poptorch/model/lowered_optimizer.h"

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

template <class T>
void take_enum(py::dict& from, const char* key, const std::map<std::string, T>& names, T& into) {
  std::string name;
  take(from, key, name);
  if (name.empty()) return;
  const auto found = names.find(name);
  if (found == names.end()) throw aspen::UserError("[compile] \"{}\" is no value of the option {}.", name, key);
  into = found->second;
}

void take_location(py::dict& from, const char* key, aspen::TensorLocation& into) {
  py::dict location;
  take(from, key, location);
  location = py::dict(location.attr("copy")());
  take(location, "off_device", into.off_device);
  take(location, "sharded", into.sharded);
  take(location, "min_elements", into.min_elements);
  take(location, "min_shard_elements", into.min_shard_elements);
  check_empty(location, "tensor locations");
}

void read_devices(py::dict& rest, aspen::CompileOptions& options) {
  using aspen::Execution, aspen::Recompute, aspen::Liveness;
  take_enum<Execution>(
      rest, "execution",
      {{"pipelined", Execution::kPipelined}, {"sharded", Execution::kSharded}, {"phased", Execution::kPhased}},
      options.execution);
  take_enum<Recompute>(rest, "recompute",
                       {{"nothing", Recompute::kNothing}, {"stages", Recompute::kStages}, {"all", Recompute::kAll}},
                       options.recompute);
  take_enum<Liveness>(rest, "liveness",
                      {{"always", Liveness::kAlwaysLive},
                       {"off_device_after_forward", Liveness::kOffDeviceAfterForward},
                       {"off_device_after_each_phase", Liveness::kOffDeviceAfterEachPhase}},
                      options.liveness);
  take(rest, "separate_backward_phase", options.separate_backward_phase);
  take(rest, "prefetch_depth", options.prefetch_depth);
  take_location(rest, "weights", options.locations.weights);
  take_location(rest, "optimizer_state", options.locations.optimizer_state);
  take_location(rest, "accumulators", options.locations.accumulators);
  take_location(rest, "activations", options.locations.activations);
  take(rest, "replicas", options.replicas);
  if (rest.contains("input_grouping")) {
    options.input_grouping = replica_grouping(rest["input_grouping"].cast<py::tuple>());
    rest.attr("pop")("input_grouping");
  }
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

aspen::ReplicaGrouping replica_grouping(const py::tuple& grouping) {
  const auto kind = grouping[0].cast<int>();
  if (kind < 0 || kind > static_cast<int>(aspen::ReplicaGrouping::Kind::kNone)) {
    throw aspen::UserError("[replicaGrouping] {} is no group type; expected 0 to 3.", kind);
  }
  return {static_cast<aspen::ReplicaGrouping::Kind>(kind), grouping[1].cast<std::size_t>(), grouping[2].cast<bool>()};
}

CompileSettings compile_settings(const py::dict& options) {
  py::dict rest(options.attr("copy")());
  CompileSettings settings;
  take(rest, "gradient_accumulation", settings.options.gradient_accumulation);
  take(rest, "device_iterations", settings.options.device_iterations);
  take(rest, "mean_reduction", settings.options.mean_reduction);
  take(rest, "running_mean", settings.options.running_mean);
  take(rest, "checks_floats", settings.options.checks_floats);
  read_devices(rest, settings.options);
  take(rest, "seed", settings.seed);
  take(rest, "backend", settings.backend);
  OptimizerProgram optimizer;  // of DeviceOptimizer.compiled
  take(rest, "optimizer", optimizer);
  settings.options.optimizer = std::move(optimizer.spec);
  settings.settings = std::move(optimizer.settings);
  check_empty(rest, "options");
  return settings;
}

}  // namespace poptorch
