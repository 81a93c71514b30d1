// The backend that programs run on: the best one of this build.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"

namespace aspen {

std::unique_ptr<Backend> best_backend();

}  // namespace aspen
