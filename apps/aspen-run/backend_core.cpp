#include "backend.h"

#include "aspen/backends/reference/reference_backend.h"

namespace aspen {

std::unique_ptr<Backend> best_backend() { return make_reference_backend(); }

}  // namespace aspen
