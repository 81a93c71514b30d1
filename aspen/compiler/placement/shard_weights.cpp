#include "aspen/compiler/placement/shard_weights.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/anchor_tensors.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/compiler/placement/clone.h"
#include "aspen/compiler/placement/stages.h"
#include "aspen/ops/replica/replica.h"

namespace aspen {
namespace {

// Where ops stand in the list: one pass over it serves all weights.
class OpOrder {
 public:
  explicit OpOrder(const Graph& graph) {
    for (const auto& op : graph.ops()) places_.emplace(op.get(), Place{places_.size(), kLast});
  }

  // A new op right before another: after those that came there earlier.
  void add_before(const Op& before, const Op& op) {
    places_.insert_or_assign(&op, Place{places_.at(&before).number, num_added_++});  // memory is used again
  }

  // Without repetitions.
  std::vector<Op*> sorted(std::vector<Op*> ops) const {
    std::sort(ops.begin(), ops.end(), [&](const Op* a, const Op* b) { return places_.at(a) < places_.at(b); });
    ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
    return ops;
  }

 private:
  static constexpr std::size_t kLast = std::numeric_limits<std::size_t>::max();
  struct Place {
    std::size_t number, among_new;
    auto operator<=>(const Place&) const = default;
  };

  std::unordered_map<const Op*, Place> places_;
  std::size_t num_added_ = 0;
};

class WeightSharder {
 public:
  WeightSharder(Graph& graph, OpOrder& order, Variable& weight, const CompileOptions& options)
      : graph_(graph), b_(graph), order_(order), weight_(weight), value_(weight.value.get()),
        replicas_(options.replicas) {}

  void run() {
    if (!can_be_sharded()) return;
    separate_aliases();
    Shape shape = value_->shape();
    graph_.shard(weight_, replicas_);
    weight_.gathered = false;
    update_own_shard();
    gather(shape);
  }

 private:
  // The op that an update makes the new contents with, if it is one for the replica's own shard.
  static const Op* write_of(const Op& assign) {
    const Op* producer = assign.input(1)->producer();
    return producer != nullptr && producer->is("replica_write") ? producer : nullptr;
  }

  bool can_be_sharded() const {
    return std::all_of(value_->users().begin(), value_->users().end(), [&](const Op* user) {
      if (user->section == Section::kStep) return true;
      return user->is("replica_slice") || user->is("replica_write") ||
             (user->is("assign") && write_of(*user) != nullptr);
    });
  }

  std::vector<Op*> readers() const {
    std::vector<Op*> found = order_.sorted(value_->users());
    std::erase_if(found, [](const Op* op) { return op->section != Section::kStep; });
    return found;
  }

  // A view made in the forward pass would keep the whole until the backward pass, which makes its own.
  void separate_aliases() {
    for (Op* alias : readers()) {
      if (!alias->def().is_alias() || alias->backward) continue;
      Op* copy = nullptr;
      for (Op* user : order_.sorted(alias->output()->users())) {
        if (!user->backward || user->section != Section::kStep) continue;
        if (copy == nullptr) {
          copy = clone_op(graph_, *alias, user);
          order_.add_before(*user, *copy);
          copy->placement = user->placement;
          copy->backward = true;
        }
        redirect(*user, alias->output(), copy->output());
      }
    }
  }

  void update_own_shard() {
    for (Op* user : order_.sorted(value_->users())) {
      if (user->section != Section::kUpdate || user->is("replica_write")) continue;
      if (user->is("replica_slice")) {
        replace_op(graph_, user, value_);
        continue;
      }
      Op* write = user->input(1)->producer();
      Value* shard = write->input(1);
      if (shard->variable() == nullptr) shard->set_name(write->output()->name());
      user->set_input(1, shard);
      if (!write->output()->is_used()) graph_.erase(write);
    }
  }

  void gather(const Shape& shape) {
    ReplicaGatherAttrs attrs{.shape = shape, .replicas = static_cast<std::int64_t>(replicas_)};
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>, Value*> gathered;
    for (Op* reader : readers()) {
      const Placement& place = reader->placement;
      Value*& whole = gathered[{place.device, place.stage, place.phase, reader->backward}];
      if (whole == nullptr) {
        b_.like(*reader);
        b_.before = reader;
        whole = b_.make("replica_gather", {value_}, attrs);
      }
      redirect(*reader, value_, whole);
    }
  }

  Graph& graph_;
  Builder b_;
  OpOrder& order_;
  Variable& weight_;
  Value* value_;
  std::size_t replicas_;
};

}  // namespace

bool is_sharded_weight(const Graph& graph, const Variable& parameter, const CompileOptions& options) {
  const TensorLocation& location = options.locations.weights;
  if (parameter.kind != VariableKind::kParameter || !location.sharded || options.replicas == 1) return false;
  if (parameter.grouping.kind != ReplicaGrouping::Kind::kAll) return false;
  if (parameter.value->type().numel() < location.min_shard_elements) return false;
  if (parameter.value->is_output() || is_assigned_in_step(*parameter.value)) return false;
  return std::none_of(options.anchors.begin(), options.anchors.end(), [&](const Anchor& anchor) {
    return anchor.tensor == parameter.name || anchored_variable(graph, anchor.tensor) == &parameter;
  });
}

void shard_weights(Graph& graph, const PassContext& context) {
  if (!context.options.locations.weights.sharded) return;
  OpOrder order(graph);
  for (const auto& variable : graph.variables()) {
    if (!is_sharded_weight(graph, *variable, context.options)) continue;
    WeightSharder(graph, order, *variable, context.options).run();
  }
}

}  // namespace aspen
