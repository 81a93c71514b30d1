// All passes there are, and their order for a training and an inference graph.
#pragma once

#include <string_view>
#include <vector>

#include "aspen/compiler/passes/pass.h"

namespace aspen {

std::vector<Pass> training_pipeline();
std::vector<Pass> inference_pipeline();

// Those of a pipeline that come after one of them.
std::vector<Pass> passes_after(std::string_view name, bool training);

// Every pass once, for aspen-opt; an unknown name is a UserError with near matches.
const std::vector<Pass>& all_passes();
const Pass& find_pass(std::string_view name);

}  // namespace aspen
