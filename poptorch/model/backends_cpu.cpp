#include "aspen/backends/cpu/cpu_backend.h"
#include "aspen/backends/reference/reference_backend.h"
#include "poptorch/model/backends.h"

namespace poptorch {

std::string default_backend() { return "cpu"; }

std::unique_ptr<aspen::Backend> make_backend(const std::string& name) {
  if (name == "cpu") return aspen::make_cpu_backend();
  if (name == "reference") return aspen::make_reference_backend();
  throw aspen::UserError("[backend] there is no backend \"{}\"; this build has cpu and reference.", name);
}

}  // namespace poptorch
