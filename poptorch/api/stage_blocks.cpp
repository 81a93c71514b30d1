#include "poptorch/api/stage_blocks.h"

#include <fmt/format.h>

#include "aspen/base/log.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

// Modules of C++ cannot be given a block in place: it is started in front of the call.
std::string block_of(const aspen::StageStart& start) {
  if (language() == Language::kPython) {
    return fmt::format("poptorch.BeginBlock({}, ipu_id={})\n", start.module, start.device);
  }
  return fmt::format("poptorch::Block::start({});  // before {} is called\n", start.device, start.module);
}

std::string blocks_of(const Model& model) {
  std::string text;
  for (const aspen::StageStart& start : model.stage_starts()) text += block_of(start);
  return text;
}

}  // namespace

std::string stage_blocks(const Model& model) {
  const std::string text = blocks_of(model);
  if (!text.empty()) return text;
  throw Error(
      fmt::format("[stageBlocks] the model was not cut into stages; it is with options.setExecutionStrategy({}(2)) "
                  "for two or more IPUs.",
                  spelled("poptorch::AutoPipeline")));
}

void log_stage_blocks(const Model& model) {
  const std::string text = blocks_of(model);
  if (!text.empty()) aspen::log::info("[AutoPipeline] the same with blocks:\n{}", text);
}

}  // namespace poptorch
