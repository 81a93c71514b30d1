// The backends this build has.
#pragma once

#include <memory>
#include <string>

#include "aspen/backends/api/kernel.h"

namespace poptorch {

std::string default_backend();
// "cpu" or "reference"; a UserError for a backend that is not built.
std::unique_ptr<aspen::Backend> make_backend(const std::string& name);

}  // namespace poptorch
