#include "aspen/compiler/placement/insert_transfers.h"

#include <map>
#include <tuple>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/placement/clone.h"
#include "aspen/compiler/placement/stages.h"
#include "aspen/ops/transfer/transfer.h"

namespace aspen {
namespace {

// Whether the reader finds new contents in the variable. While an update runs, copies on other devices keep the old.
bool is_overwritten(const Op& assign, const Op& reader) {
  if (assign.task >= reader.task) return false;
  return reader.section == Section::kStep || assign.placement.device == reader.placement.device;
}

class TransferInserter {
 public:
  TransferInserter(Graph& graph, const CompileOptions& options) : graph_(graph), b_(graph), options_(options) {}

  void run() {
    std::vector<Op*> ops;
    for (const auto& op : graph_.ops()) {
      ops.push_back(op.get());
      if (op->is("assign")) assigns_.emplace(std::pair(op->section, op->input(0)->variable()), op.get());
    }
    for (Op* op : ops) {
      for (std::size_t i = op->is("assign") ? 1 : 0; i < op->num_inputs(); ++i) {
        if (op->input(i) != nullptr) op->set_input(i, arrival(op->input(i), *op));
      }
    }
  }

 private:
  std::int64_t lane_of(const Op& op) const { return graph_.tasks[op.task].lane; }

  // The value under which `reader` sees `value`.
  Value* arrival(Value* value, Op& reader) {
    Op* producer = value->producer();
    if (producer == nullptr) return value->variable() == nullptr ? value : contents(*value->variable(), reader);
    if (producer->task == reader.task && !is_away(value, *producer, reader)) return value;
    if (producer->def().is_alias() && can_remake(*producer, reader)) return remade(*producer, reader);
    if (producer->is("load") && is_within_reach(producer->input(0), reader)) return loaded(producer->input(0), reader);
    // What was sent to the next phase is stored for later ones by the task that has made it.
    bool is_sent = producer->is("send") && producer->input(0)->producer() != nullptr;
    if (is_sent && is_stored(*value, *producer, reader)) return arrival(producer->input(0), reader);
    if (is_stored(*value, *producer, reader)) return loaded(transferred<StoreAttrs>("store", value, reader), reader);
    return is_within_reach(value, reader) ? value : transferred<SendAttrs>("send", value, reader);
  }

  // What the variable held when the section began.
  Value* contents(Variable& variable, Op& reader) {
    // They find the shards wherever they are.
    if (reader.is("replica_gather") || reader.is("replica_add")) return variable.value.get();
    auto found = assigns_.find({reader.section, &variable});
    if (found == assigns_.end() || !is_overwritten(*found->second, reader)) {
      return variable.off_device ? loaded(variable.value.get(), reader) : variable.value.get();
    }
    Value*& kept = kept_[{&variable, lane_of(reader)}];
    if (kept == nullptr) kept = keep(variable, *found->second, lane_of(reader));
    return kept;
  }

  // Readers may come anywhere in the list, so this is done first of all; the schedule knows its place.
  Value* keep(Variable& variable, const Op& assign, std::int64_t lane) {
    stamp(assign, graph_.ops().front().get());
    Value* value = variable.value.get();
    if (variable.off_device) value = emit("load", value, NoAttrs{});
    return emit("send", value, SendAttrs{lane});
  }

  // Whether a value made in the reader's own task is not there any more: left, or to be fetched once more.
  bool is_away(const Value* value, const Op& producer, const Op& reader) const {
    const Value* origin = value;
    while (origin->producer() != nullptr && origin->producer()->def().is_alias()) {
      origin = origin->producer()->input(0);
    }
    const Op* maker = origin->producer();
    if (maker == nullptr) {
      return origin->variable() != nullptr && origin->variable()->off_device && producer.backward != reader.backward;
    }
    if (maker->is("load")) return maker->task != reader.task || maker->backward != reader.backward;
    return is_stored(*origin, *maker, reader);
  }

  // Whether a value leaves the device between the op that makes it and the reader.
  bool is_stored(const Value& value, const Op& producer, const Op& reader) const {
    const TensorLocation& activations = options_.locations.activations;
    if (value.type().numel() < activations.min_elements || producer.section != Section::kStep) return false;
    bool turns = !producer.backward && reader.backward;
    bool is_activation = activations.off_device && !producer.backward;
    if (options_.execution != Execution::kPhased) return is_activation && (producer.task != reader.task || turns);
    std::int64_t phases = graph_.tasks[reader.task].phase - graph_.tasks[producer.task].phase;  // from one to the other
    switch (options_.liveness) {
      case Liveness::kAlwaysLive: return is_activation && phases > 1;
      case Liveness::kOffDeviceAfterForward:
      case Liveness::kOffDeviceAfterForwardNoOverlap: return is_activation ? phases > 0 || turns : phases > 0 && turns;
      case Liveness::kOffDeviceAfterEachPhase: break;
    }
    return phases > 0 || (is_activation && turns);
  }

  // Whether the reader's lane holds the value already.
  bool is_within_reach(const Value* value, const Op& reader) const {
    const Op* producer = value->producer();
    if (producer == nullptr || producer->task == reader.task) return true;
    if (producer->is("send")) return producer->attrs<SendAttrs>().lane == lane_of(reader);
    if (producer->is("store")) return producer->attrs<StoreAttrs>().lane == lane_of(reader);
    return lane_of(*producer) == lane_of(reader);
  }

  // An alias of something that its own task received from afar is sent on itself: going back to the origin would let
  // tasks of distant stages wait for each other. So is an alias of a variable that exists in its own lane alone.
  bool can_remake(const Op& alias, const Op& reader) const {
    const Value& input = *alias.input(0);
    if (lane_of(alias) == lane_of(reader)) return true;
    if (input.producer() != nullptr) return input.producer()->task == alias.task;
    return alias.section == Section::kUpdate || input.variable() == nullptr || !is_assigned_in_step(input);
  }

  Value* remade(const Op& alias, Op& reader) {
    Value*& result = remade_[{alias.output()->id(), reader.task, reader.backward}];
    if (result != nullptr) return result;
    Value* input = arrival(alias.input(0), reader);
    Op* copy = clone_op(graph_, alias, &reader);
    move_to(*copy, reader);
    copy->set_input(0, input);
    return result = copy->output();
  }

  // One load for the forward and one for the backward ops of a task.
  Value* loaded(Value* value, Op& reader) {
    Value*& result = loaded_[{value->id(), reader.task, reader.backward}];
    if (result != nullptr) return result;
    stamp(reader, &reader);
    return result = emit("load", value, NoAttrs{});
  }

  // A send or store into the reader's lane, right behind the op that makes the value.
  template <class A>
  Value* transferred(const char* name, Value* value, const Op& reader) {
    Value*& result = transferred_[{value->id(), lane_of(reader), name}];
    if (result != nullptr) return result;
    Op* producer = value->producer();
    stamp(*producer, producer);
    result = emit(name, value, A{lane_of(reader)});
    graph_.move_before(producer, result->producer());
    return result;
  }

  // New ops look like `op` and belong to its task.
  void stamp(const Op& op, Op* before) {
    b_.like(op);
    b_.before = before;
    task_ = op.task;
  }

  template <class A>
  Value* emit(const char* name, Value* input, A attrs) {
    Op* op = b_.emit(name, {input}, attrs);
    op->task = task_;
    return op->output();
  }

  static void move_to(Op& op, const Op& reader) {
    op.placement = reader.placement;
    op.backward = reader.backward;
    op.task = reader.task;
  }

  Graph& graph_;
  Builder b_;
  const CompileOptions& options_;
  std::int64_t task_ = 0;
  std::map<std::pair<Section, const Variable*>, const Op*> assigns_;
  std::map<std::pair<const Variable*, std::int64_t>, Value*> kept_;  // by lane, which belongs to one section
  using PerTask = std::map<std::tuple<std::int64_t, std::int64_t, bool>, Value*>;  // value id, task, backward
  PerTask remade_, loaded_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::string>, Value*> transferred_;  // value id, lane, op
};

class TransferCheck {
 public:
  explicit TransferCheck(const Graph& graph) : graph_(graph) {}

  std::string run() {
    for (const auto& op : graph_.ops()) {
      if (op->is("assign")) assigns_.emplace(std::pair(op->section, op->input(0)->variable()), op.get());
    }
    for (const auto& op : graph_.ops()) {
      for (std::size_t i = op->is("assign") ? 1 : 0; i < op->num_inputs(); ++i) {
        if (op->input(i) == nullptr) continue;
        std::string problem = check(*op->input(i), *op);
        if (problem.empty()) continue;
        return fmt::format("{} in task \"{}\" reads {}", op->name(), graph_.tasks[op->task].name, problem);
      }
    }
    return "";
  }

 private:
  std::string check(const Value& value, const Op& reader) const {
    const Op* producer = value.producer();
    if (producer == nullptr) return value.variable() == nullptr ? "" : check(*value.variable(), reader);
    bool is_store = producer->is("store");
    if (is_store && !reader.is("load")) return "a stored value without loading it";
    if (!is_store && reader.is("load")) return "something that is not off the device";
    if (producer->task > reader.task) return "a result of a later task";
    if (producer->task == reader.task) return "";
    std::int64_t lane = producer->is("send") ? producer->attrs<SendAttrs>().lane
                        : is_store           ? producer->attrs<StoreAttrs>().lane
                                             : graph_.tasks[producer->task].lane;
    if (lane == graph_.tasks[reader.task].lane) return "";
    return fmt::format("a result of {} in task \"{}\", which is in lane {}", producer->name(),
                       graph_.tasks[producer->task].name, lane);
  }

  std::string check(const Variable& variable, const Op& reader) const {
    if (reader.is("replica_gather") || reader.is("replica_add")) return "";
    if (variable.off_device != reader.is("load")) {
      return fmt::format("variable \"{}\", which is {} the device", variable.name, variable.off_device ? "off" : "on");
    }
    auto found = assigns_.find({reader.section, &variable});
    if (found == assigns_.end() || !is_overwritten(*found->second, reader)) return "";
    return fmt::format("variable \"{}\" after task \"{}\" has assigned it", variable.name,
                       graph_.tasks[found->second->task].name);
  }

  const Graph& graph_;
  std::map<std::pair<Section, const Variable*>, const Op*> assigns_;
};

}  // namespace

void insert_transfers(Graph& graph, const PassContext& context) { TransferInserter(graph, context.options).run(); }

const Condition kTransfersComplete{"transfers_complete", [](const Graph& graph) { return TransferCheck(graph).run(); }};

}  // namespace aspen
