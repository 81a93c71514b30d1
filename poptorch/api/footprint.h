// The memory of a compiled model, for both languages.
#pragma once

#include <vector>

#include "poptorch/memory.h"
#include "poptorch/model/session.h"

namespace poptorch {

std::vector<MemoryFootprint> memory_footprint(const Session& session);  // by device; an Error before it is compiled

}  // namespace poptorch
