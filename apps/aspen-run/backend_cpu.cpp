#include "backend.h"

#include "aspen/backends/cpu/cpu_backend.h"

namespace aspen {

std::unique_ptr<Backend> best_backend() { return make_cpu_backend(); }

}  // namespace aspen
