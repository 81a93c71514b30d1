// Between Python objects and the types of the C++ library.
#pragma once

#include <c10/core/ScalarType.h>
#include <pybind11/pybind11.h>

#include "poptorch/model/model.h"

namespace poptorch {

pybind11::object dtype_object(c10::ScalarType type);  // torch.float32, ...
// (poptorch.CommGroupType as a number, replicas per group, whether the host sees every replica)
aspen::ReplicaGrouping replica_grouping(const pybind11::tuple& grouping);

}  // namespace poptorch
