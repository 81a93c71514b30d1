#include "aspen/compiler/placement/update_tasks.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "aspen/base/error.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/placement/stages.h"

namespace aspen {
namespace {

class UpdateTasks {
 public:
  explicit UpdateTasks(Graph& graph) : graph_(graph), is_remade_(graph) {}

  void run() {
    std::vector<Op*> assigns, others;
    bool has_update = false;
    for (const auto& op : graph_.ops()) {
      if (op->section != Section::kUpdate) {
        bool writes = op->is("assign") || op->is("replica_add");
        if (writes) home_.emplace(op->input(0)->variable(), graph_.tasks[op->task].device);
        continue;
      }
      has_update = true;
      if (!is_remade_(*op)) (op->is("assign") ? assigns : others).push_back(op.get());
    }
    if (!has_update) return;
    for (Op* op : others) {
      place(*op);
      note_reads(*op);
    }
    for (Op* op : assigns) {
      place(*op);
      follow_reads(*op);
    }
    make_tasks();
  }

 private:
  struct Slot {
    std::int64_t level, device;
    auto operator<=>(const Slot&) const = default;
  };

  // The variable an input is a view of, or nullptr.
  static const Variable* variable_of(const Value* value) {
    while (value->producer() != nullptr && value->producer()->def().is_alias()) value = value->producer()->input(0);
    return value->variable();
  }

  // What the step section assigns (a sum of gradients) exists on one device only; its readers come there.
  std::int64_t device_of(const Op& op) const {
    const Variable* fixed = nullptr;
    std::int64_t device = op.placement.device;
    for (const Value* input : op.inputs()) {
      auto home = input == nullptr ? home_.end() : home_.find(variable_of(input));
      if (home == home_.end()) continue;
      if (fixed != nullptr && home->second != device) {
        throw InternalError("the update reads \"{}\" of device {} and \"{}\" of device {} at once", fixed->name, device,
                            home->first->name, home->second);
      }
      fixed = home->first;
      device = home->second;
    }
    return device;
  }

  void place(const Op& op) {
    Slot slot{0, device_of(op)};
    for (const Value* input : op.inputs()) {
      if (input == nullptr || input->producer() == nullptr || is_remade_(*input->producer())) continue;
      const Slot& from = slots_.at(input->producer());
      bool is_later = from.device != slot.device || op.is("replica_sum");  // when all replicas have got so far
      slot.level = std::max(slot.level, from.level + (is_later ? 1 : 0));
    }
    slots_[&op] = slot;
  }

  // Levels only count where they are compared: on the device that reads.
  void note_reads(const Op& op) {
    const Slot& slot = slots_.at(&op);
    for (const Value* input : op.inputs()) {
      const Variable* variable = input == nullptr ? nullptr : variable_of(input);
      if (variable == nullptr) continue;
      std::int64_t& level = last_read_[{variable, slot.device}];
      level = std::max(level, slot.level);
    }
  }

  // An assign waits for the reads on its device, so that no old contents need be kept.
  void follow_reads(const Op& assign) {
    Slot& slot = slots_.at(&assign);
    auto found = last_read_.find({assign.input(0)->variable(), slot.device});
    if (found != last_read_.end()) slot.level = std::max(slot.level, found->second);
  }

  void make_tasks() {
    std::map<Slot, std::int64_t> tasks;
    std::map<std::int64_t, std::int64_t> lanes;  // by device
    std::int64_t last_level = 0;
    for (const auto& [op, slot] : slots_) {
      tasks.emplace(slot, 0);
      last_level = std::max(last_level, slot.level);
    }
    if (tasks.empty()) tasks.emplace(Slot{0, graph_.tasks[0].device}, 0);  // nothing but sources
    for (auto& [slot, task] : tasks) {
      task = static_cast<std::int64_t>(graph_.tasks.size());
      auto [lane, is_new] = lanes.emplace(slot.device, static_cast<std::int64_t>(graph_.lanes.size()));
      if (is_new) graph_.lanes.push_back({.device = slot.device, .depth = 1});
      std::string name = tasks.size() == 1 ? "update"
                         : last_level == 0 ? fmt::format("update on device {}", slot.device)
                                           : fmt::format("update {} on device {}", slot.level, slot.device);
      graph_.tasks.push_back({.name = name, .section = Section::kUpdate, .device = slot.device, .lane = lane->second});
    }
    for (const auto& op : graph_.ops()) {
      auto slot = slots_.find(op.get());
      if (slot != slots_.end()) op->task = tasks.at(slot->second);
    }
  }

  Graph& graph_;
  RemadeOps is_remade_;
  std::unordered_map<const Variable*, std::int64_t> home_;  // device of what the step section assigns
  std::unordered_map<const Op*, Slot> slots_;
  std::map<std::pair<const Variable*, std::int64_t>, std::int64_t> last_read_;  // level, by variable and device
};

}  // namespace

void make_update_tasks(Graph& graph) { UpdateTasks(graph).run(); }

}  // namespace aspen
