#include "aspen/backends/reference/reference_backend.h"
#include "poptorch/model/backends.h"

namespace poptorch {

std::string default_backend() { return "reference"; }

std::unique_ptr<aspen::Backend> make_backend(const std::string& name) {
  if (name == "reference") return aspen::make_reference_backend();
  throw aspen::UserError("[backend] there is no backend \"{}\"; this build has reference only.", name);
}

}  // namespace poptorch
