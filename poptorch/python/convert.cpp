#include "poptorch/python/convert.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>

#include "aspen/base/error.h"

namespace py = pybind11;

namespace poptorch {

py::object dtype_object(c10::ScalarType type) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(type)));
}

aspen::ReplicaGrouping replica_grouping(const py::tuple& grouping) {
  const auto kind = grouping[0].cast<int>();
  if (kind < 0 || kind > static_cast<int>(aspen::ReplicaGrouping::Kind::kNone)) {
    throw aspen::UserError("[replicaGrouping] {} is no group type; expected 0 to 3.", kind);
  }
  return {static_cast<aspen::ReplicaGrouping::Kind>(kind), grouping[1].cast<std::size_t>(), grouping[2].cast<bool>()};
}

}  // namespace poptorch
