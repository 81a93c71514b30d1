#include "aspen/compiler/placement/overlap_loads.h"

#include <algorithm>
#include <array>
#include <map>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/transfer/transfer.h"

namespace aspen {
namespace {

class LoadOverlapper {
 public:
  explicit LoadOverlapper(Graph& graph) : graph_(graph), b_(graph) {}

  void run() {
    std::map<std::int64_t, std::vector<Op*>> loads = find_loads();
    if (loads.empty()) return;
    for (const GraphTask& task : graph_.tasks) device_ = std::max(device_, task.device + 1);
    lane_ = add_lane(device_);
    std::int64_t num_added = 0;
    for (const auto& [task, ops] : loads) bring(task + num_added++, ops);
  }

 private:
  // By task, of the step section.
  std::map<std::int64_t, std::vector<Op*>> find_loads() const {
    std::map<std::int64_t, std::vector<Op*>> loads;
    for (const auto& op : graph_.ops()) {
      if (!op->is("load") || op->section != Section::kStep) continue;
      const Op* store = op->input(0)->producer();
      if (store == nullptr || store->task != op->task) loads[op->task].push_back(op.get());
    }
    return loads;
  }

  std::int64_t add_lane(std::int64_t device) {
    graph_.lanes.push_back({.device = device, .depth = 1});
    return static_cast<std::int64_t>(graph_.lanes.size()) - 1;
  }

  // Puts a task before this one that does its loads, each once for forward and backward ops.
  void bring(std::int64_t task, const std::vector<Op*>& loads) {
    const GraphTask& reader = graph_.tasks[task];
    std::int64_t lane = receiving_lane(reader.device);
    GraphTask made{.name = "loads of " + reader.name,
                   .device = device_,
                   .lane = lane_,
                   .stage = reader.stage,
                   .phase = reader.phase,
                   .moves = true};
    graph_.tasks.insert(graph_.tasks.begin() + task, std::move(made));
    for (const auto& op : graph_.ops()) op->task += op->task >= task ? 1 : 0;
    std::map<std::int64_t, Value*> brought;  // by id of what is loaded
    for (Op* load : loads) {
      Value*& value = brought[load->input(0)->id()];
      if (value == nullptr) value = sent(*load, lane, task);
      replace_op(graph_, load, value);
    }
  }

  Value* sent(Op& load, std::int64_t lane, std::int64_t task) {
    b_.like(load);
    b_.before = &load;
    b_.placement.device = device_;
    Op* send = b_.emit("send", {load.input(0)}, SendAttrs{lane});
    send->task = task;
    return send->output();
  }

  // That of the device's next task with loads.
  std::int64_t receiving_lane(std::int64_t device) {
    auto [found, is_new] = lanes_.emplace(device, Lanes{});
    Lanes& lanes = found->second;
    if (is_new) lanes.pair = {add_lane(device), add_lane(device)};
    return lanes.pair[static_cast<std::size_t>(lanes.num_used++ % 2)];
  }

  struct Lanes {
    std::array<std::int64_t, 2> pair{};
    std::int64_t num_used = 0;
  };

  Graph& graph_;
  Builder b_;
  std::int64_t device_ = 0, lane_ = 0;
  std::map<std::int64_t, Lanes> lanes_;  // by device that computes
};

}  // namespace

void overlap_loads(Graph& graph, const PassContext& context) {
  const CompileOptions& options = context.options;
  if (options.execution != Execution::kPhased || options.liveness != Liveness::kOffDeviceAfterForward) return;
  LoadOverlapper(graph).run();
}

}  // namespace aspen
