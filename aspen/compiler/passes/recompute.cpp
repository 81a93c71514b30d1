#include "aspen/compiler/passes/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/cheap_chains.h"
#include "aspen/compiler/passes/choose_checkpoints.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/compiler/placement/stages.h"

namespace aspen {
namespace {

// Tells which ops share a stage, and which stages compute again.
class Scope {
 public:
  Scope(const Graph& graph, const CompileOptions& options)
      : includes_all_(options.recompute != Recompute::kStages), execution_(options.execution) {
    if (execution_ == Execution::kPipelined) stages_.emplace(graph);
  }

  // The last stage of a pipeline goes back as soon as it is through: keeping costs it nothing.
  bool includes(const Op& op) const { return includes_all_ || (stages_ && !is_last(op)); }

  // Equal for ops that share a stage.
  std::pair<std::int64_t, std::int64_t> stage_of(const Op& op) const {
    if (stages_) return {static_cast<std::int64_t>(stages_->index_of(op.placement)), 0};
    return {op.placement.device, execution_ == Execution::kPhased ? op.placement.phase : 0};
  }
  bool share_stage(const Op& a, const Op& b) const { return stage_of(a) == stage_of(b); }

  // Whether the backward pass of the op's stage comes right after its forward pass.
  bool turns_at_once(const Op& op) const { return stages_ && is_last(op); }
  // Micro-batches that the op's stage works on at once, as step_tasks.h has it.
  double micro_batches(const Op& op) const {
    if (!stages_ || is_last(op)) return 1;
    return static_cast<double>(stages_->size() - stages_->index_of(op.placement) + 1);
  }

 private:
  bool is_last(const Op& op) const { return stages_->index_of(op.placement) + 1 == stages_->size(); }

  bool includes_all_;
  Execution execution_;
  std::optional<Stages> stages_;  // of a pipeline
};

class Recomputer {
 public:
  Recomputer(Graph& graph, const CompileOptions& options, std::vector<bool> kept)
      : graph_(graph), scope_(graph, options), kept_(std::move(kept)), copies_(graph.num_values(), nullptr),
        kind_(options.recompute) {}

  void run() {
    find_repeatable();
    if (kind_ == Recompute::kNorms) leave_cheap_chains();
    if (kind_ == Recompute::kParts) add_checkpoints();
    for (std::size_t i = 0; i < repeatable_.size(); ++i) position_.emplace(repeatable_[i], i);
    for (const auto& op : graph_.ops()) {
      if (op->backward && op->section == Section::kStep) use_copies(*op);
    }
  }

 private:
  // The ops that may run a second time.
  void find_repeatable() {
    std::vector<Op*> forward;
    for (const auto& op : graph_.ops()) {
      if (op->section == Section::kStep && !op->backward) forward.push_back(op.get());
    }
    std::vector<bool> is_overwritten(graph_.num_values(), false);  // variables, by value id
    for (const Op* op : forward) {
      if (op->is("assign")) is_overwritten[op->input(0)->id()] = true;
    }
    for (Op* op : forward) {
      bool reads_overwritten = std::any_of(op->inputs().begin(), op->inputs().end(), [&](const Value* input) {
        return input != nullptr && is_overwritten[input->id()];
      });
      if (reads_overwritten || runs_once(*op) || !scope_.includes(*op)) continue;
      repeatable_.push_back(op);
    }
  }

  void leave_cheap_chains() {
    auto cheap = cheap_chains(repeatable_, kept_, [&](const Op& a, const Op& b) { return scope_.share_stage(a, b); });
    std::erase_if(repeatable_, [&](const Op* op) { return cheap.count(op) == 0; });
  }

  void add_checkpoints() {
    std::map<std::pair<std::int64_t, std::int64_t>, CheckpointRequest> stages;
    for (Op* op : repeatable_) stages[scope_.stage_of(*op)].ops.push_back(op);
    for (auto& [stage, request] : stages) {
      request.micro_batches = scope_.micro_batches(*request.ops.front());
      request.turns_at_once = scope_.turns_at_once(*request.ops.front());
      choose_checkpoints(request, kept_);
    }
  }

  static bool runs_once(const Op& op) { return op.is_impure() || op.def().is_stored(); }

  bool is_repeated(const Value* value, const Op& user) const {
    if (value == nullptr || value->producer() == nullptr || kept_[value->id()]) return false;
    return position_.count(value->producer()) != 0 && scope_.share_stage(*value->producer(), user);
  }

  void use_copies(Op& user) {
    for (std::size_t i = 0; i < user.num_inputs(); ++i) {
      Value* value = user.input(i);
      if (!is_repeated(value, user)) continue;
      copy_before(user, *value->producer());
      user.set_input(i, copies_[value->id()]);
    }
  }

  // Copies an op and all it takes to run it again, where that has not been done, in the order of the originals.
  void copy_before(Op& user, const Op& last) {
    std::set<std::size_t> missing;
    std::vector<const Op*> wanted{&last};
    while (!wanted.empty()) {
      const Op& op = *wanted.back();
      wanted.pop_back();
      if (copies_[op.output()->id()] != nullptr || !missing.insert(position_.at(&op)).second) continue;
      for (const Value* input : op.inputs()) {
        if (is_repeated(input, op)) wanted.push_back(input->producer());
      }
    }
    for (std::size_t position : missing) copy(*repeatable_[position], user);
  }

  void copy(const Op& op, Op& user) {
    std::vector<Value*> inputs = op.inputs();
    for (Value*& input : inputs) {
      if (is_repeated(input, op)) input = copies_[input->id()];
    }
    Op* result = graph_.add_op(op.def(), std::move(inputs), op.attrs(), &user);
    result->location = op.location;
    result->placement = op.placement;
    result->no_grad = op.no_grad;
    result->backward = true;
    for (std::size_t i = 0; i < op.num_outputs(); ++i) copies_[op.output(i)->id()] = result->output(i);
  }

  Graph& graph_;
  Scope scope_;
  std::vector<bool> kept_;                               // by value id
  std::vector<Op*> repeatable_;                          // in the order of the graph
  std::unordered_map<const Op*, std::size_t> position_;  // in repeatable_
  std::vector<Value*> copies_;                           // by id of the original; nullptr: none
  Recompute kind_;
};

// Which values were marked, by id.
std::vector<bool> remove_checkpoints(Graph& graph) {
  std::vector<bool> marked(graph.num_values(), false);
  for (auto place = graph.ops().begin(); place != graph.ops().end();) {
    Op* op = (place++)->get();
    if (!op->is("checkpoint")) continue;
    marked[op->input(0)->id()] = true;
    replace_op(graph, op, op->input(0));
  }
  return marked;
}

}  // namespace

void recompute(Graph& graph, const PassContext& context) {
  std::vector<bool> marked = remove_checkpoints(graph);
  const CompileOptions& options = context.options;
  if (!options.training || options.recompute == Recompute::kNothing) return;
  Recomputer(graph, options, std::move(marked)).run();
}

const Condition kNoCheckpoints{"no_checkpoints", [](const Graph& graph) -> std::string {
                                 bool any = std::any_of(graph.ops().begin(), graph.ops().end(),
                                                        [](const auto& op) { return op->is("checkpoint"); });
                                 return any ? "a checkpoint is left" : "";
                               }};

}  // namespace aspen
