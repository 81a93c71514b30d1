// The cut of AutoPipeline as blocks that the user can write into the model.
#pragma once

#include <string>

#include "poptorch/model/model.h"

namespace poptorch {

// A line for each stage after the first, which needs no block. An Error if the model was not cut.
std::string stage_blocks(const Model& model);
// The same, in the log; nothing if the model was not cut.
void log_stage_blocks(const Model& model);

}  // namespace poptorch
