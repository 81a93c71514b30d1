// PopTorch for C++ programs: train and run torch::nn modules as compiled programs.
//
//   auto net = std::make_shared<Net>();                       // forward returns {output, loss}
//   poptorch::optim::SGD optimizer(net->parameters(), {/*lr=*/0.01});
//   auto model = poptorch::trainingModel(net, poptorch::Options().deviceIterations(20), optimizer);
//   auto [output, loss] = model(images, labels);              // 20 training steps
//   model.copyWeightsToHost();
#pragma once

#include "poptorch/annotations.h"
#include "poptorch/block.h"
#include "poptorch/custom_op.h"
#include "poptorch/data_loader.h"
#include "poptorch/environment.h"
#include "poptorch/error.h"
#include "poptorch/executor.h"
#include "poptorch/memory.h"
#include "poptorch/ops.h"
#include "poptorch/optim.h"
#include "poptorch/options.h"
#include "poptorch/perf_counters.h"
#include "poptorch/profiling.h"
#include "poptorch/strategy.h"
#include "poptorch/structure.h"
