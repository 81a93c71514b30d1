// Which ops have a place of their own, and the stages of a pipeline, found from where the ops were placed. Asked by the
// passes that must know which values a stage receives and which it computes (recompute, partition).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Whether the step section assigns the variable that has this value.
bool is_assigned_in_step(const Value& variable);

// Tells whether an op is made anew in every task that uses it rather than moved there: a source that is not random, or
// an alias of a source, a graph input or a variable (in the step section: one that the section does not assign). Such
// an op has no place of its own. Knows the ops that the graph had when it was asked first.
class RemadeOps {
 public:
  explicit RemadeOps(const Graph& graph);
  bool operator()(const Op& op) const { return op.num_outputs() > 0 && is_remade_[op.output()->id()]; }

 private:
  std::vector<bool> is_remade_;  // by id of the first result
};

// The ops of the step section that have a place of their own, in the order of the graph.
std::vector<Op*> placed_ops(const Graph& graph, const RemadeOps& is_remade);

// Ops with a place of their own that computed an input.
std::vector<Op*> placed_producers(const Op& op, const RemadeOps& is_remade);

// Devices that ops of the step are placed on, ascending.
std::vector<std::int64_t> devices_in_use(const Graph& graph);

// Placed stages in ascending order, where consecutive ones on the same device count as one:
//
//   placed stage    0  1  2  5         (numbers may be missing)
//   device          0  0  1  0
//   stage           0  0  1  2
//
class Stages {
 public:
  // UserError when one placed stage has ops on two devices.
  explicit Stages(const Graph& graph);

  std::size_t size() const { return placements_.size(); }
  std::int64_t device(std::size_t stage) const { return placements_[stage].device; }
  // The place of the first op, for messages and names.
  const Placement& placement(std::size_t stage) const { return placements_[stage]; }
  std::string name(std::size_t stage) const;  // "stage 2"
  // The stage of an op: the one it was placed on, or for ops without a place of their own the last one before.
  std::size_t index_of(const Placement& placement) const;

 private:
  std::vector<Placement> placements_;             // by stage
  std::map<std::int64_t, std::size_t> index_of_;  // placed stage -> stage
};

}  // namespace aspen
