// The backends of this build, for tests that run on each of them.
#pragma once

#include <memory>
#include <vector>

#include "aspen/backends/api/kernel.h"

namespace aspen::testing {

// The reference backend first: the others are held against it.
std::vector<std::shared_ptr<Backend>> built_backends();

}  // namespace aspen::testing
