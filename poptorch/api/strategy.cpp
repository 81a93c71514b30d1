#include "poptorch/strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "poptorch/error.h"

namespace poptorch {

Stage& Stage::ipu(std::int64_t ipu_id) {
  if (ipu_id < 0) throw Error(fmt::format("[Stage] {} is no IPU; ids begin at 0.", ipu_id));
  ipu_ = ipu_id;
  return *this;
}

ExecutionStrategy::ExecutionStrategy(Kind kind, AutoStage rule) : kind_(kind), rule_(rule) {}

ExecutionStrategy::ExecutionStrategy(Kind kind, const std::vector<Stage>& stages) : kind_(kind) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (const std::string& block : stages[i].blocks()) {
      if (!blocks_.emplace(block, Known{static_cast<std::int64_t>(i), stages[i].ipu()}).second) {
        throw Error(fmt::format("[Stage] block \"{}\" is in two stages; a block belongs to one.", block));
      }
    }
  }
}

ExecutionStrategy::Place ExecutionStrategy::place(const std::string& block, std::optional<std::int64_t> ipu_id) {
  if (ipu_id && *ipu_id < 0) throw Error(fmt::format("[Block] {} is no IPU; ids begin at 0.", *ipu_id));
  if (rule_ == AutoStage::SameAsIpu) {
    if (!ipu_id) {
      throw Error(
          fmt::format("[Block] block \"{}\" has no ipu_id, which AutoStage::SameAsIpu needs to find its stage; "
                      "give it one, use AutoIncrement, or list the stages in the strategy.",
                      block));
    }
    return {*ipu_id, *ipu_id};
  }
  if (rule_) blocks_.emplace(block, Known{static_cast<std::int64_t>(blocks_.size()) + 1, std::nullopt});
  const auto known = blocks_.find(block);
  if (known == blocks_.end()) {
    std::vector<std::string> names;
    for (const auto& [name, place] : blocks_) names.push_back(name);
    throw Error(fmt::format("[Block] block \"{}\" is in no stage of the strategy, whose stages have {}; add it to one.",
                            block, fmt::join(names, ", ")));
  }
  const Known& found = known->second;
  return {found.stage, found.ipu.value_or(ipu_id.value_or(found.stage))};
}

}  // namespace poptorch
