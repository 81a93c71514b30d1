// From Options to what the compiler is told: how devices work together, what they keep and where.
#pragma once

#include <set>

#include "poptorch/api/option_store.h"
#include "poptorch/model/lowered_optimizer.h"
#include "poptorch/model/model.h"

namespace poptorch {

class ExecutionStrategy;

// Raises an Error for the first option that is wrong, or that the engine cannot honour.
// The log counts anew which lines it repeats (maxRepeatLogs).
void check_options(const OptionStore& options);

// Whether enableProfiling or POPLAR_ENGINE_OPTIONS ask for a profile.
bool is_profiled(const OptionStore& options);

// Training.setAutomaticLossScaling.
bool scales_loss_automatically(const OptionStore& options);

// `ipus`: the devices of the blocks of the model. The optimiser is added by add_optimizer.
CompileSettings compile_settings(const OptionStore& options, const ExecutionStrategy& strategy, bool training,
                                 const std::set<std::int64_t>& ipus);

// Anchors that stand for numbers of the optimiser are no business of the compiler.
void add_optimizer(CompileSettings& settings, const OptimizerProgram& optimizer);

}  // namespace poptorch
