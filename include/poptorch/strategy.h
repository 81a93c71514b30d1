// Execution strategies: which stage, phase and virtual IPU each block of a model belongs to, and how the IPUs work
// together. Given to Options::setExecutionStrategy.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace poptorch {

// Blocks that run together on one IPU: that of ipu(), else that of the block, else the one with the stage's number.
class Stage {
 public:
  Stage(const char* block) : blocks_{block} {}
  Stage(std::string block) : blocks_{std::move(block)} {}
  Stage(std::initializer_list<std::string> blocks) : blocks_(blocks) {}
  explicit Stage(std::vector<std::string> blocks) : blocks_(std::move(blocks)) {}
  Stage& ipu(std::int64_t ipu_id);

  const std::vector<std::string>& blocks() const { return blocks_; }
  std::optional<std::int64_t> ipu() const { return ipu_; }
  std::string toString() const;  // Stage("a", "b").ipu(3)

 private:
  std::vector<std::string> blocks_;
  std::optional<std::int64_t> ipu_;
};

// Stages that are changed by whom they are shared with as well.
using SharedStages = std::vector<std::shared_ptr<Stage>>;

// Stages that run in parallel: {"a", "b"} is one stage of two blocks, {Stage("a"), Stage("b")} are two stages. A copy
// has stages of its own.
class Phase {
 public:
  Phase(const char* block) : Phase({Stage(block)}) {}
  Phase(std::string block) : Phase({Stage(std::move(block))}) {}
  Phase(const Stage& stage) : Phase({stage}) {}
  Phase(std::initializer_list<const char*> blocks);
  Phase(std::initializer_list<Stage> stages);
  explicit Phase(const std::vector<Stage>& stages);
  explicit Phase(SharedStages stages) : stages_(std::move(stages)) {}
  Phase(const Phase& other);
  Phase& operator=(const Phase& other);
  Phase(Phase&&) noexcept = default;
  Phase& operator=(Phase&&) noexcept = default;
  ~Phase() = default;

  Stage& stage(std::size_t index);
  void ipus(const std::vector<std::int64_t>& ipu_ids);  // one for each stage

  const SharedStages& stages() const { return stages_; }
  std::string toString() const;

 private:
  friend class ExecutionStrategy;
  SharedStages stages_;
};

// How stages are found that are not listed.
enum class AutoStage {
  SameAsIpu,     // the ipu_id of the block
  AutoIncrement  // each new block is the next stage, from 1; stage 0 is what runs before the first block
};

// When the tensors of a phase leave the device.
enum class Liveness { AlwaysLive, OffChipAfterFwd, OffChipAfterFwdNoOverlap, OffChipAfterEachPhase };

// A value: a copy is changed independently.
class ExecutionStrategy {
 public:
  enum class Kind { Pipelined, Sharded, SerialPhased, ParallelPhased };
  struct Place {
    std::int64_t stage, phase, ipu;
  };

  Kind kind() const { return kind_; }
  bool isPhased() const { return kind_ == Kind::SerialPhased || kind_ == Kind::ParallelPhased; }
  std::optional<AutoStage> autoStage() const { return rule_; }  // none: the stages are listed
  // Of pipelined and sharded execution one, with all stages.
  const std::vector<Phase>& phases() const { return phases_; }
  std::shared_ptr<Stage> stage(const std::string& block) const;
  Liveness liveness() const { return liveness_; }
  bool separateBackwardPhase() const { return separate_backward_phase_; }
  // Of AutoPipeline: how many IPUs the model is cut for, and whether ops are timed; 0: blocks place the model.
  std::int64_t autoIpus() const { return auto_ipus_; }
  bool measures() const { return measures_; }
  // PipelinedExecution(Stage("a"), Stage("b").ipu(3))
  std::string toString() const;

  // Where a block is that starts now; asked while a model is captured. Stages that AutoStage finds are remembered.
  Place place(const std::string& block, std::optional<std::int64_t> ipu_id);
  // Forgets what AutoStage has found: the next model begins anew.
  void forget();

 protected:
  ExecutionStrategy(Kind kind, AutoStage rule);
  ExecutionStrategy(Kind kind, std::vector<Phase> phases);

  std::vector<Phase> phases_;
  Liveness liveness_ = Liveness::AlwaysLive;
  bool separate_backward_phase_ = false;
  std::int64_t auto_ipus_ = 0;
  bool measures_ = true;

 private:
  struct Known {
    std::int64_t stage, phase;
    std::size_t index;  // among the stages of its phase
  };
  const char* name() const;
  void list(const Stage& stage, Known place);
  void find_stage(const std::string& block, std::optional<std::int64_t> ipu_id);
  void check(const std::string& block, const Place& place) const;

  Kind kind_;
  std::optional<AutoStage> rule_;
  std::map<std::string, Known> blocks_;
};

// The stages work at the same time, on different micro-batches.
class PipelinedExecution : public ExecutionStrategy {
 public:
  explicit PipelinedExecution(AutoStage rule = AutoStage::SameAsIpu) : ExecutionStrategy(Kind::Pipelined, rule) {}
  explicit PipelinedExecution(const std::vector<Stage>& stages)
      : ExecutionStrategy(Kind::Pipelined, std::vector<Phase>{Phase(stages)}) {}
  static PipelinedExecution with(const SharedStages& stages);  // a stage changed later is changed here too

 private:
  using ExecutionStrategy::ExecutionStrategy;
};

// A pipeline over IPUs 0 to num_ipus - 1 for a model without blocks: the compiler cuts it where the slowest stage is
// fastest, at calls of modules. measure: by the times of ops on this machine; false: by a guess from shapes, which is
// the same everywhere. Executor::stageBlocks tells the cut as blocks. Results do not depend on it.
class AutoPipeline : public ExecutionStrategy {
 public:
  explicit AutoPipeline(std::int64_t num_ipus, bool measure = true);
};

// The stages work one after the other.
class ShardedExecution : public ExecutionStrategy {
 public:
  explicit ShardedExecution(AutoStage rule = AutoStage::SameAsIpu) : ExecutionStrategy(Kind::Sharded, rule) {}
  explicit ShardedExecution(const std::vector<Stage>& stages)
      : ExecutionStrategy(Kind::Sharded, std::vector<Phase>{Phase(stages)}) {}
  static ShardedExecution with(const SharedStages& stages);  // a stage changed later is changed here too

 private:
  using ExecutionStrategy::ExecutionStrategy;
};

// Phases run one after the other; what they do not need is kept off the device in between.
class PhasedExecution : public ExecutionStrategy {
 public:
  Phase& phase(std::size_t index);

 protected:
  using ExecutionStrategy::ExecutionStrategy;
};

// All phases on the same IPUs.
class SerialPhasedExecution : public PhasedExecution {
 public:
  explicit SerialPhasedExecution(std::vector<Phase> phases) : PhasedExecution(Kind::SerialPhased, std::move(phases)) {}
  SerialPhasedExecution& setTensorsLiveness(Liveness liveness);
  // The backward pass of the last phase is a phase of its own.
  SerialPhasedExecution& useSeparateBackwardPhase(bool use = true);
};

// Even phases on even IPUs, odd phases on odd ones.
class ParallelPhasedExecution : public PhasedExecution {
 public:
  explicit ParallelPhasedExecution(std::vector<Phase> phases)
      : PhasedExecution(Kind::ParallelPhased, std::move(phases)) {}
  ParallelPhasedExecution& sendTensorsOffChipAfterFwd(bool off_chip = true);
  ParallelPhasedExecution& useSeparateBackwardPhase(bool use = true);
};

}  // namespace poptorch
