#include "aspen/compiler/memory/residences.h"

#include <algorithm>
#include <set>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/memory/offsets.h"
#include "aspen/compiler/placement/overlap_io.h"
#include "aspen/ops/transfer/transfer.h"

namespace aspen {
namespace {

BufferRef append(Arena arena, std::size_t owner, std::size_t bytes, std::size_t& end) {
  BufferRef place{.arena = arena, .owner = owner, .offset = end, .bytes = bytes};
  end += aligned(bytes);
  return place;
}

// Its shards are gathered from the homes they have in the replicas.
bool is_sharded_weight(const Variable& variable) {
  return variable.sharded && variable.kind == VariableKind::kParameter;
}

}  // namespace

Residences::Residences(const Graph& graph, const OpDemands& demands, MemoryPlan& plan)
    : graph_(graph), plan_(plan), roots_(graph.num_values(), nullptr), consumers_(graph.num_values()),
      has_tasks_(graph.lanes.size(), false), inputs_of_(graph.tasks.size()), outputs_of_(graph.tasks.size()),
      places_(graph.num_values()) {
  std::int64_t num_devices = 1;
  for (const GraphTask& task : graph.tasks) num_devices = std::max(num_devices, task.device + 1);
  plan.devices.resize(static_cast<std::size_t>(num_devices));
  plan.lanes.resize(graph.lanes.size());
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) input_index_.emplace(graph.inputs()[i].get(), i);
  for (const GraphTask& task : graph.tasks) has_tasks_[task.lane] = true;
  find_roots();
  find_consumers();
  place_variables();
  place_constants(demands);
  place_values(demands);
  place_inputs(demands);
  assign_slots();
}

std::optional<BufferRef> Residences::find(const Value* root, std::int64_t task) const {
  if (const Variable* variable = root->variable()) {
    const std::size_t index = variable_index_.at(variable);
    if (is_sharded_weight(*variable) || variable->off_device) return plan_.variables[index].front();
    auto found = variable_places_.find({index, static_cast<std::size_t>(device_of(task))});
    if (found != variable_places_.end()) return found->second;
    throw InternalError("variable \"{}\" has no place on device {}", variable->name, device_of(task));
  }
  if (root->producer() != nullptr) return places_[root->id()];
  const std::size_t input = input_index_.at(root);
  if (!is_copied_[input]) return BufferRef{.arena = Arena::kInputs, .owner = input, .bytes = root->type().bytes()};
  auto found = inputs_in_lanes_.find({root->id(), lane_of(task)});
  return found == inputs_in_lanes_.end() ? std::nullopt : std::optional(found->second);
}

void Residences::find_roots() {
  for (const auto& input : graph_.inputs()) roots_[input->id()] = input.get();
  for (const auto& variable : graph_.variables()) roots_[variable->value->id()] = variable->value.get();
  for (const auto& op : graph_.ops()) {
    if (op->task < 0) throw InternalError("op {} belongs to no task", op->name());
    for (const Value* output : op->outputs()) {
      roots_[output->id()] = op->def().is_alias() ? roots_[op->input(0)->id()] : output;
    }
  }
}

void Residences::find_consumers() {
  auto use = [&](const Value* value, std::int64_t task) { consumers_[root(value)->id()].push_back(task); };
  for (const auto& op : graph_.ops()) {
    if (op->def().is_alias() || is_arrival(*op)) continue;
    for (std::size_t i = op->is("assign") ? 1 : 0; i < op->num_inputs(); ++i) {
      if (op->input(i) != nullptr) use(op->input(i), op->task);
    }
  }
  for (auto& tasks : consumers_) {
    std::sort(tasks.begin(), tasks.end());
    tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  }
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const Value* value = graph_.outputs()[i].value;
    std::int64_t task = task_of_output(value);
    outputs_of_[task].push_back(i);
    auto& tasks = consumers_[root(value)->id()];
    auto place = std::lower_bound(tasks.begin(), tasks.end(), task);
    if (place == tasks.end() || *place != task) tasks.insert(place, task);
  }
}

// The task after which an output is taken: the one that makes it, or the one it was sent to. An input or a variable
// that is returned as it is leaves with the first task that uses it; a variable that the step assigns, with the task
// that does.
std::int64_t Residences::task_of_output(const Value* value) const {
  if (value->producer() != nullptr) return task_after_send(graph_, *value->producer());
  for (const Op* user : value->users()) {
    bool is_assigned = user->is("assign") && user->input(0) == value && user->section == Section::kStep;
    if (is_assigned) return user->task;
  }
  const auto& tasks = consumers_[value->id()];
  bool in_step = !tasks.empty() && graph_.tasks[tasks.front()].section == Section::kStep;
  return in_step ? tasks.front() : 0;
}

// Devices that read a variable through a task that brings it to them.
std::set<std::size_t> Residences::devices_brought_to(const Value& variable) const {
  std::set<std::size_t> devices;
  for (const Op* user : variable.users()) {
    if (graph_.tasks[user->task].moves) devices.insert(graph_.lanes[user->attrs<SendAttrs>().lane].device);
  }
  return devices;
}

void Residences::place_variables() {
  for (const auto& variable : graph_.variables()) {
    const Value* value = variable->value.get();
    std::size_t bytes = value->type().bytes();
    std::vector<std::size_t> devices;  // home first
    for (const Op* user : value->users()) {
      if (user->is("assign") && user->input(0) == value) devices.push_back(device_of(user->task));
    }
    std::set<std::size_t> readers = devices_brought_to(*value);
    for (std::int64_t task : consumers_[value->id()]) {
      if (!graph_.tasks[task].moves) readers.insert(device_of(task));
    }
    devices.insert(devices.end(), readers.begin(), readers.end());
    if (devices.empty()) devices.push_back(0);
    std::vector<BufferRef> places;
    std::set<std::size_t> seen;
    for (std::size_t device : devices) {
      if (!seen.insert(device).second) continue;
      if (!places.empty() && is_sharded_weight(*variable)) break;
      DevicePlan& plan = plan_.devices[device];
      if (variable->off_device) {
        if (places.empty()) places.push_back(append(Arena::kHostVariables, device, bytes, plan.host_variable_bytes));
      } else {
        places.push_back(append(Arena::kVariables, device, bytes, plan.variable_bytes));
      }
    }
    const std::size_t index = plan_.variables.size();
    variable_index_.emplace(variable.get(), index);
    for (const BufferRef& place : places) variable_places_.emplace(std::pair(index, place.owner), place);
    plan_.variables.push_back(std::move(places));
  }
}

// Tasks have constants of their own; equal ones of a device share a place.
void Residences::place_constants(const OpDemands& demands) {
  std::unordered_multimap<std::size_t, std::pair<const Op*, BufferRef>> known;  // only looked up by key
  for (const auto& op : graph_.ops()) {
    if (!demands.at(op.get()).is_constant) continue;
    auto device = static_cast<std::size_t>(device_of(op->task));
    // Of all that is compared: what each of many devices has must not meet under one key.
    std::size_t hash = op->attrs().hash() + device * 0x9E3779B97F4A7C15u;
    auto [begin, end] = known.equal_range(hash);
    auto found = std::find_if(begin, end, [&](const auto& entry) {
      const auto& [other, place] = entry.second;
      return place.owner == device && &other->def() == &op->def() && other->output()->type() == op->output()->type() &&
             other->attrs() == op->attrs();
    });
    if (found == end) {
      std::size_t bytes = op->output()->type().bytes();
      BufferRef place = append(Arena::kConstants, device, bytes, plan_.devices[device].constant_bytes);
      found = known.emplace(hash, std::pair(op.get(), place));
      plan_.constants.emplace_back(op.get(), place);
    }
    places_[op->output()->id()] = found->second.second;
  }
}

void Residences::place_values(const OpDemands& demands) {
  for (const auto& op : graph_.ops()) {
    if (op->def().is_alias() || demands.at(op.get()).is_constant) continue;
    for (const Value* output : op->outputs()) {
      const auto& tasks = consumers_[output->id()];
      std::int64_t last = tasks.empty() ? op->task : std::max(op->task, tasks.back());
      // Other replicas may come late to read it: nothing takes its place before all meet again.
      bool is_read_by_others = std::any_of(output->users().begin(), output->users().end(),
                                           [](const Op* user) { return user->is("replica_sum"); });
      if (is_read_by_others) last = static_cast<std::int64_t>(graph_.tasks.size()) - 1;
      if (op->is("send")) {
        keep_in_lane(output, op->attrs<SendAttrs>().lane, Arena::kSlots, op->task, last);
      } else if (op->is("store")) {
        keep_in_lane(output, op->attrs<StoreAttrs>().lane, Arena::kHostSlots, op->task, last);
      } else if (last > op->task) {
        keep_in_lane(output, lane_of(op->task), Arena::kSlots, op->task, last);
      } else {
        continue;
      }
      std::int64_t lane = kept_.back().lane;
      bool is_local = std::all_of(tasks.begin(), tasks.end(), [&](std::int64_t task) {
        return reads(task, lane) || (op->is("store") && graph_.tasks[task].moves);
      });
      if (!is_local) throw InternalError("a result of {} is used in a lane it was not sent to", op->name());
    }
  }
}

// Its own lane, or one that only receives for tasks of the same device.
bool Residences::reads(std::int64_t task, std::int64_t lane) const {
  return lane_of(task) == lane || (graph_.lanes[lane].device == device_of(task) && !has_tasks_[lane]);
}

std::vector<bool> Residences::copied_inputs(const OpDemands& demands) const {
  std::vector<bool> result(graph_.inputs().size());
  for (const auto& op : graph_.ops()) {
    if (!demands.at(op.get()).copies_inputs) continue;
    for (const Value* value : op->inputs()) {
      if (value == nullptr) continue;
      const auto found = input_index_.find(root(value));
      if (found != input_index_.end()) result[found->second] = true;
    }
  }
  return result;
}

// An input is read where it lies. If that cannot be, one that a single task of a lane uses is copied into that task's
// scratch memory; one that several use, into a slot.
void Residences::place_inputs(const OpDemands& demands) {
  is_copied_ = copied_inputs(demands);
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    const Value* input = graph_.inputs()[i].get();
    std::map<std::int64_t, std::vector<std::int64_t>> by_lane;
    for (std::int64_t task : consumers_[input->id()]) by_lane[lane_of(task)].push_back(task);
    for (const auto& [lane, tasks] : by_lane) {
      inputs_of_[tasks.front()].push_back(i);
      if (is_copied_[i] && tasks.size() > 1) keep_in_lane(input, lane, Arena::kSlots, tasks.front(), tasks.back());
    }
  }
}

void Residences::keep_in_lane(const Value* value, std::int64_t lane, Arena arena, std::int64_t first,
                              std::int64_t last) {
  kept_.push_back({.value = value, .lane = lane, .arena = arena, .first = first, .last = last});
}

void Residences::assign_slots() {
  std::vector<std::map<Arena, std::vector<const Kept*>>> kept_in(plan_.lanes.size());  // by lane
  for (const Kept& entry : kept_) kept_in[entry.lane][entry.arena].push_back(&entry);
  for (std::size_t lane = 0; lane < plan_.lanes.size(); ++lane) {
    for (Arena arena : {Arena::kSlots, Arena::kHostSlots}) {
      const std::vector<const Kept*>& kept = kept_in[lane][arena];
      std::vector<Lifetime> lifetimes;
      for (const Kept* entry : kept) {
        lifetimes.push_back({.bytes = entry->value->type().bytes(), .first = entry->first, .last = entry->last});
      }
      std::size_t bytes = assign_offsets(lifetimes);
      (arena == Arena::kSlots ? plan_.lanes[lane].slot_bytes : plan_.lanes[lane].host_slot_bytes) = bytes;
      for (std::size_t k = 0; k < kept.size(); ++k) {
        const Value* value = kept[k]->value;
        BufferRef place{.arena = arena, .owner = lane, .offset = lifetimes[k].offset, .bytes = lifetimes[k].bytes};
        if (value->producer() != nullptr) {
          places_[value->id()] = place;
        } else {
          inputs_in_lanes_.emplace(std::pair(value->id(), kept[k]->lane), place);
        }
        plan_.lanes[lane].buffers.push_back({value, place, kept[k]->first, kept[k]->last});
      }
    }
  }
}

}  // namespace aspen
