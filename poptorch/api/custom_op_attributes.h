// Attributes of custom operators as programs give them: JSON, numbers of Python.
#pragma once

#include <string>

#include "poptorch/custom_op.h"

namespace poptorch {

// {"alpha": 0.1, "axes": [0, 1]}; "" for none. A ValueError for what is no number, text or list of one kind of these.
CustomOpAttributes attributes_from_json(const std::string& text);

// An Error if float32 cannot hold the number.
float attribute_float(const std::string& name, double value);

}  // namespace poptorch
