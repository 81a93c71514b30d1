#include "poptorch/strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "aspen/ipus/ipu_ids.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

const char* liveness_name(Liveness liveness) {
  switch (liveness) {
    case Liveness::AlwaysLive: return "AlwaysLive";
    case Liveness::OffChipAfterFwd: return "OffChipAfterFwd";
    case Liveness::OffChipAfterFwdNoOverlap: return "OffChipAfterFwdNoOverlap";
    case Liveness::OffChipAfterEachPhase: break;
  }
  return "OffChipAfterEachPhase";
}

// As a literal of the user's language.
std::string quoted(const std::string& text) {
  char quote = spelled("\"", "'")[0];
  if (text.find('\'') != std::string::npos && text.find('"') == std::string::npos) quote = '"';
  std::string literal(1, quote);
  for (const char letter : text) {
    if (letter == quote || letter == '\\') literal += '\\';
    literal += letter;
  }
  return literal + quote;
}

std::string listed(const std::vector<std::string>& texts) {
  std::vector<std::string> literals;
  for (const std::string& text : texts) literals.push_back(quoted(text));
  return fmt::format("{}", fmt::join(literals, ", "));
}

template <class Value>
std::string listed_keys(const std::map<std::string, Value>& entries) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : entries) keys.push_back(key);
  return listed(keys);
}

template <class Item>
void check_index(const char* who, const char* what, std::size_t index, const std::vector<Item>& items) {
  if (index < items.size()) return;
  throw ArgumentError(fmt::format("{} has no {} {}; it has {}", who, what, index, items.size()));
}

std::vector<Phase> one_phase(const SharedStages& stages) {
  std::vector<Phase> phases;
  phases.emplace_back(stages);
  return phases;
}

SharedStages copied(const SharedStages& stages) {
  SharedStages copies;
  for (const auto& stage : stages) copies.push_back(std::make_shared<Stage>(*stage));
  return copies;
}

}  // namespace

// -- stages and phases ----------------------------------------------------------------------------------------------

Stage& Stage::ipu(std::int64_t ipu_id) {
  if (ipu_id < 0) throw Error(fmt::format("[Stage] {} is no IPU; ids begin at 0.", ipu_id));
  ipu_ = ipu_id;
  return *this;
}

std::string Stage::toString() const {
  std::string text = fmt::format("Stage({})", listed(blocks_));
  if (ipu_) text += fmt::format(".ipu({})", *ipu_);
  return text;
}

Phase::Phase(std::initializer_list<const char*> blocks) {
  stages_.push_back(std::make_shared<Stage>(std::vector<std::string>(blocks.begin(), blocks.end())));
}

Phase::Phase(std::initializer_list<Stage> stages) : Phase(std::vector<Stage>(stages)) {}

Phase::Phase(const std::vector<Stage>& stages) {
  for (const Stage& stage : stages) stages_.push_back(std::make_shared<Stage>(stage));
}

Phase::Phase(const Phase& other) : stages_(copied(other.stages_)) {}

Phase& Phase::operator=(const Phase& other) {
  stages_ = copied(other.stages_);
  return *this;
}

Stage& Phase::stage(std::size_t index) {
  check_index("Phase", "stage", index, stages_);
  return *stages_[index];
}

void Phase::ipus(const std::vector<std::int64_t>& ipu_ids) {
  if (ipu_ids.size() != stages_.size()) {
    throw ArgumentError(fmt::format("Phase has {} stages, but {} IPUs were given", stages_.size(), ipu_ids.size()));
  }
  for (std::size_t i = 0; i < ipu_ids.size(); ++i) stages_[i]->ipu(ipu_ids[i]);
}

std::string Phase::toString() const {
  std::vector<std::string> texts;
  for (const auto& stage : stages_) texts.push_back(stage->toString());
  return fmt::format("Phase({})", fmt::join(texts, ", "));
}

// -- strategies -----------------------------------------------------------------------------------------------------

ExecutionStrategy::ExecutionStrategy(Kind kind, AutoStage rule) : kind_(kind), rule_(rule) {
  phases_.emplace_back(SharedStages());
}

ExecutionStrategy::ExecutionStrategy(Kind kind, std::vector<Phase> phases) : phases_(std::move(phases)), kind_(kind) {
  if (phases_.empty()) throw ArgumentError(fmt::format("{} needs its phases: there is no automatic mode", name()));
  for (std::size_t phase = 0; phase < phases_.size(); ++phase) {
    const SharedStages& stages = phases_[phase].stages_;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      list(*stages[i], {static_cast<std::int64_t>(i), static_cast<std::int64_t>(phase), i});
    }
  }
}

const char* ExecutionStrategy::name() const {
  if (auto_ipus_ != 0) return "AutoPipeline";
  switch (kind_) {
    case Kind::Pipelined: return "PipelinedExecution";
    case Kind::Sharded: return "ShardedExecution";
    case Kind::SerialPhased: return "SerialPhasedExecution";
    case Kind::ParallelPhased: break;
  }
  return "ParallelPhasedExecution";
}

void ExecutionStrategy::list(const Stage& stage, Known place) {
  for (const std::string& block : stage.blocks()) {
    if (blocks_.emplace(block, place).second) continue;
    throw ArgumentError(fmt::format("Block \"{}\" is in two stages; a block belongs to one stage", block));
  }
}

std::shared_ptr<Stage> ExecutionStrategy::stage(const std::string& block) const {
  const auto known = blocks_.find(block);
  if (known == blocks_.end()) {
    throw ArgumentError(fmt::format("Unknown block \"{}\"; known: [{}]", block, listed_keys(blocks_)));
  }
  return phases_[static_cast<std::size_t>(known->second.phase)].stages_[known->second.index];
}

void ExecutionStrategy::forget() {
  if (!rule_) return;
  blocks_.clear();
  phases_[0].stages_.clear();
}

void ExecutionStrategy::find_stage(const std::string& block, std::optional<std::int64_t> ipu_id) {
  if (rule_ == AutoStage::SameAsIpu && !ipu_id) {
    throw ArgumentError(
        fmt::format("Block \"{}\" has no ipu_id, which {} needs to find its stage. Give it an ipu_id, use {}, or list "
                    "the stages in the strategy.",
                    block, spelled("AutoStage::SameAsIpu"), spelled("AutoStage::AutoIncrement")));
  }
  if (blocks_.contains(block)) return;
  SharedStages& stages = phases_[0].stages_;
  // Stage 0 is kept for what runs before the first block.
  const auto next = static_cast<std::int64_t>(stages.size()) + 1;
  stages.push_back(std::make_shared<Stage>(block));
  list(*stages.back(), {rule_ == AutoStage::SameAsIpu ? *ipu_id : next, 0, stages.size() - 1});
}

ExecutionStrategy::Place ExecutionStrategy::place(const std::string& block, std::optional<std::int64_t> ipu_id) {
  if (auto_ipus_ != 0) {
    throw Error(fmt::format(
        "[AutoPipeline] the model begins block \"{}\", but AutoPipeline places the ops itself. Take the blocks "
        "out ({} does so for those of BeginBlock), or use {}, which follows them.",
        block, spelled("poptorch::removeBlocks"), spelled("poptorch::PipelinedExecution")));
  }
  if (rule_) find_stage(block, ipu_id);
  const auto known = blocks_.find(block);
  if (known == blocks_.end()) {
    throw ArgumentError(fmt::format(
        "Block \"{}\" is not in any stage of {}; its stages have the blocks [{}]. Add the block to a stage.", block,
        name(), listed_keys(blocks_)));
  }
  const auto [stage, phase, index] = known->second;
  Place place{stage, phase,
              phases_[static_cast<std::size_t>(phase)].stages_[index]->ipu().value_or(ipu_id.value_or(stage))};
  if (rule_ == AutoStage::SameAsIpu) place = {*ipu_id, 0, *ipu_id};  // a block may move
  check(block, place);
  return place;
}

void ExecutionStrategy::check(const std::string& block, const Place& place) const {
  if (place.ipu < 0) {
    throw Error(fmt::format("[Block] block \"{}\" is on IPU {}; ids are whole numbers from 0.", block, place.ipu));
  }
  if (kind_ == Kind::ParallelPhased && place.ipu % 2 != place.phase % 2) {
    throw Error(
        fmt::format("[ParallelPhasedExecution] block \"{}\" of phase {} is on IPU {}; even phases run on even IPUs and "
                    "odd phases on odd ones. Choose them with strategy.phase({}).ipus(...).",
                    block, place.phase, place.ipu, place.phase));
  }
}

std::string ExecutionStrategy::toString() const {
  std::vector<std::string> inside;
  if (auto_ipus_ != 0) {
    inside.push_back(fmt::format("num_ipus={}", auto_ipus_));
    if (!measures_) inside.push_back("measure=" + spelled(false));
  } else if (rule_) {
    inside.push_back(spelled(rule_ == AutoStage::SameAsIpu ? "AutoStage::SameAsIpu" : "AutoStage::AutoIncrement"));
  } else if (!isPhased()) {
    for (const auto& stage : phases_[0].stages_) inside.push_back(stage->toString());
  } else {
    for (const Phase& phase : phases_) inside.push_back(phase.toString());
    inside.push_back("separate_backward_phase=" + spelled(separate_backward_phase_));
    inside.push_back(kind_ == Kind::SerialPhased ? fmt::format("liveness={}", liveness_name(liveness_))
                                                 : "off_chip_after_fwd=" + spelled(liveness_ != Liveness::AlwaysLive));
  }
  return fmt::format("{}({})", name(), fmt::join(inside, ", "));
}

PipelinedExecution PipelinedExecution::with(const SharedStages& stages) {
  return PipelinedExecution(Kind::Pipelined, one_phase(stages));
}

AutoPipeline::AutoPipeline(std::int64_t num_ipus, bool measure)
    : ExecutionStrategy(Kind::Pipelined, AutoStage::SameAsIpu) {
  if (num_ipus < 1 || num_ipus > aspen::kMaxIpus) {
    throw Error(fmt::format("[AutoPipeline] num_ipus is {}; expected 1 <= num_ipus <= {}.", num_ipus, aspen::kMaxIpus));
  }
  auto_ipus_ = num_ipus;
  measures_ = measure;
}

ShardedExecution ShardedExecution::with(const SharedStages& stages) {
  return ShardedExecution(Kind::Sharded, one_phase(stages));
}

Phase& PhasedExecution::phase(std::size_t index) {
  check_index("The strategy", "phase", index, phases_);
  return phases_[index];
}

SerialPhasedExecution& SerialPhasedExecution::setTensorsLiveness(Liveness liveness) {
  liveness_ = liveness;
  return *this;
}

SerialPhasedExecution& SerialPhasedExecution::useSeparateBackwardPhase(bool use) {
  separate_backward_phase_ = use;
  return *this;
}

ParallelPhasedExecution& ParallelPhasedExecution::sendTensorsOffChipAfterFwd(bool off_chip) {
  liveness_ = off_chip ? Liveness::OffChipAfterFwd : Liveness::AlwaysLive;
  return *this;
}

ParallelPhasedExecution& ParallelPhasedExecution::useSeparateBackwardPhase(bool use) {
  separate_backward_phase_ = use;
  return *this;
}

}  // namespace poptorch
