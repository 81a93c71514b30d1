#include "aspen/backends/cpu/cpu_backend.h"
#include "aspen/backends/reference/reference_backend.h"
#include "tests/support/backends.h"

namespace aspen::testing {

std::vector<std::shared_ptr<Backend>> built_backends() { return {make_reference_backend(), make_cpu_backend()}; }

}  // namespace aspen::testing
