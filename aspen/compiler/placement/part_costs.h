// What the parts of a model cost, and the best places to cut it into the stages of a pipeline. Plain numbers: filled by
// measure_parts.h, used by cut_stages.h.
//
//   parts     0   1   2   3   4   5        in the order in which they run; a stage is some of them in a row
//   stages    |-------| |-------| |--|     begin at parts 0, 2 and 4
//
// The slowest stage sets the pace of a pipeline. A stage takes the time of its parts, forward and backward, of
// computing its forward pass once more where that is not kept (all stages but the last), and of sending what others
// need.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace aspen {

struct PartCosts {
  struct Part {
    double forward = 0, backward = 0;  // nanoseconds per micro-batch
    double variable_bytes = 0;         // of weights and all that belongs to them
    double saved_bytes = 0;            // of results that the backward pass reads
    double scratch_bytes = 0;          // of the largest results of an op
    bool may_begin_stage = true;
    std::int64_t last_call = 0;  // a stage that begins here has this part, too: its module is called there
  };
  // A value that several parts use. One that the first of them does not make (a weight) counts as made there.
  struct Value {
    std::int64_t made = 0;
    std::vector<std::int64_t> used;  // by parts after `made`, ascending, each once
    double bytes = 0;
  };

  std::vector<Part> parts;
  std::vector<Value> values;
  double nanoseconds_per_byte = 0.1;  // of a copy
  bool is_training = false;
  bool recomputes = false;  // all stages but the last

  // Nanoseconds per micro-batch of each stage. begins: first parts of the stages, ascending; the first is 0.
  std::vector<double> stage_times(const std::vector<std::int64_t>& begins) const;
  double slowest(const std::vector<std::int64_t>& begins) const;
  // Bytes that each stage takes of its device, about.
  std::vector<double> stage_bytes(const std::vector<std::int64_t>& begins) const;
};

// First parts of the stages, the first of them 0: the cut with the fastest slowest stage and, of those about as fast,
// the one that moves the fewest bytes. limit: bytes that a stage may take, 0: any number. Nothing if there is none: too
// few parts begin stages, or none of them fit.
std::vector<std::int64_t> best_cut(const PartCosts& costs, std::int64_t num_stages,
                                   const std::function<double(std::int64_t stage)>& limit = nullptr);

}  // namespace aspen
