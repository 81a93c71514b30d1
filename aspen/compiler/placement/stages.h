// The stages of a pipeline as they will run, found from where the ops were placed. Asked by the passes that must know
// which values a stage receives and which it computes (recompute, partition).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// Devices that ops of the step are placed on, ascending.
std::vector<std::int64_t> devices_in_use(const Graph& graph);

// Placed stages in ascending order, where consecutive ones on the same device count as one:
//
//   placed stage    0  1  2  5         (numbers may be missing)
//   device          0  0  1  0
//   stage           0  0  1  2
class Stages {
 public:
  // UserError when one placed stage has ops on two devices.
  explicit Stages(const Graph& graph);

  std::size_t size() const { return devices_.size(); }
  std::int64_t device(std::size_t stage) const { return devices_[stage]; }
  // The stage of anything placed like an op of the graph's step.
  std::size_t index_of(const Placement& placement) const;

 private:
  std::vector<std::int64_t> devices_;             // by stage
  std::map<std::int64_t, std::size_t> index_of_;  // placed stage -> stage
};

}  // namespace aspen
