// Execution strategies: which stage and which virtual IPU each block of a model belongs to, and how the IPUs work
// together. Given to Options::setExecutionStrategy.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace poptorch {

// Blocks that run together on one IPU: that of ipu(), else that of the block, else the one with the stage's number.
class Stage {
 public:
  Stage(const char* block) : blocks_{block} {}
  Stage(std::initializer_list<std::string> blocks) : blocks_(blocks) {}
  Stage& ipu(std::int64_t ipu_id);

  const std::vector<std::string>& blocks() const { return blocks_; }
  std::optional<std::int64_t> ipu() const { return ipu_; }

 private:
  std::vector<std::string> blocks_;
  std::optional<std::int64_t> ipu_;
};

// How stages are found that are not listed.
enum class AutoStage {
  SameAsIpu,     // the ipu_id of the block
  AutoIncrement  // each new block is the next stage, from 1; stage 0 is what runs before the first block
};

class ExecutionStrategy {
 public:
  enum class Kind { Pipelined, Sharded };
  struct Place {
    std::int64_t stage, ipu;
  };

  Kind kind() const { return kind_; }
  // Where a block is that starts now; asked while a model is captured.
  Place place(const std::string& block, std::optional<std::int64_t> ipu_id);

 protected:
  ExecutionStrategy(Kind kind, AutoStage rule);
  ExecutionStrategy(Kind kind, const std::vector<Stage>& stages);

 private:
  Kind kind_;
  std::optional<AutoStage> rule_;  // none: the stages are listed
  struct Known {
    std::int64_t stage;
    std::optional<std::int64_t> ipu;
  };
  std::map<std::string, Known> blocks_;
};

// The stages work at the same time, on different micro-batches.
class PipelinedExecution : public ExecutionStrategy {
 public:
  explicit PipelinedExecution(AutoStage rule = AutoStage::SameAsIpu) : ExecutionStrategy(Kind::Pipelined, rule) {}
  explicit PipelinedExecution(const std::vector<Stage>& stages) : ExecutionStrategy(Kind::Pipelined, stages) {}
};

// The stages work one after the other.
class ShardedExecution : public ExecutionStrategy {
 public:
  explicit ShardedExecution(AutoStage rule = AutoStage::SameAsIpu) : ExecutionStrategy(Kind::Sharded, rule) {}
  explicit ShardedExecution(const std::vector<Stage>& stages) : ExecutionStrategy(Kind::Sharded, stages) {}
};

}  // namespace poptorch
