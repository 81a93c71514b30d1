// A region: ops that are recorded one after the other and then become the body of a loop or branch. It is recorded
// where the program stands, in the middle of the model's graph, so that everything a body may do is recorded as
// anywhere else:
//
//   %a = body_input(%x)                       %0 = ... (retired)
//   %0 = dot(%a, %w)            =>            %y = loop(%x, %w) {body=graph @body(%a, %w) { ... }}
//   %1 = tanh(%0)
//
// The ops that were copied into the body are retired: they stay where they are until forward is through, since tensors
// of the model know their values, and then are dropped, unless somebody outside uses one, which is an error. What
// follows from values outside alone is left there, if the region is run at all (a loop), or if it is a view.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aspen/compiler/ir/body.h"
#include "poptorch/capture/recorder.h"

namespace poptorch {

class Region {
 public:
  // op: for messages. runs_always: else a branch, whose ops stay in it whatever they are computed from.
  Region(Recorder& recorder, std::string op, bool runs_always);

  using Tensors = std::vector<at::Tensor>;
  // Tensors of the body that stand for these.
  Tensors begin(const Tensors& tensors);
  // After the body: values of its results, which have been recorded with it.
  std::vector<aspen::Value*> end(const Tensors& results);

  // Why it cannot become a graph of its own, "" when it can.
  const std::string& obstacle() const { return obstacle_; }
  // Memory that was there before and has been written to, and what was in it when the region began.
  const std::vector<Capture::Write>& writes() const { return writes_; }

  // What a body has to be handed. `values` are those outside that it reads, each once.
  struct Operands {
    std::vector<aspen::Value*> values;
    std::unordered_map<const aspen::Value*, std::size_t> places;
    std::size_t place_of(aspen::Value* value);
  };
  // Notes the values outside that the results are computed from.
  void find_operands(const std::vector<aspen::Value*>& results, Operands& operands) const;
  // The body, taking the tensors it began with and then all the operands.
  std::unique_ptr<aspen::Graph> cut(const std::vector<aspen::Value*>& results, const Operands& operands) const;
  void retire() const;

  const std::vector<aspen::Op*>& inputs() const { return inputs_; }  // ops body_input
  aspen::Placement placement() const;

 private:
  using Visit = std::function<void(aspen::Value*)>;
  bool is_inside(const aspen::Op* op) const { return inside_.count(op) != 0; }
  bool stays_outside(const aspen::Op& op) const;
  std::string find_obstacle() const;
  void for_each_outside(const std::vector<aspen::Value*>& results, const Visit& visit) const;

  Recorder& recorder_;
  std::string op_;
  bool runs_always_;
  aspen::Op* before_ = nullptr;  // the last op before the region
  std::size_t first_write_, first_move_, first_mark_;
  std::vector<aspen::Op*> inputs_;
  std::vector<aspen::Op*> ops_;                  // inside, in order
  std::unordered_set<const aspen::Op*> inside_;  // the same, and inputs_
  std::unordered_set<const aspen::Op*> copied_;  // outside, but made again inside: sources, views of a branch
  std::vector<Capture::Write> writes_;
  std::string obstacle_;
};

}  // namespace poptorch
