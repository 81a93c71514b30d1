#include <algorithm>
#include <map>

#include "aspen/compiler/evaluate.h"
#include "aspen/profiler/buffer_lives.h"
#include "aspen/profiler/describe_program.h"
#include "aspen/profiler/op_work.h"

namespace aspen {
namespace {

using profile::BufferKind;

std::int64_t number(std::size_t value) { return static_cast<std::int64_t>(value); }

// "layer1/0" of "layer1.0.weight".
std::string module_of(const std::string& variable) {
  const auto dot = variable.rfind('.');
  std::string module = dot == std::string::npos ? "" : variable.substr(0, dot);
  std::replace(module.begin(), module.end(), '.', '/');
  return module;
}

// What the compiler adds has a name with this in it: "Accl1___fc.weight".
constexpr const char* kMark = "___";

// Regions of a device follow each other; those kept for it on the host likewise.
class MemoryTables {
 public:
  MemoryTables(const Program& program, profile::Profile& profile) : program_(program), profile_(profile) {}

  void write() {
    for (const DevicePlan& device : program_.devices) {
      const std::int64_t budget = number(device.budget_bytes), least = profile_.memory.budget;
      if (budget > 0) profile_.memory.budget = least == 0 ? budget : std::min(least, budget);
    }
    for (std::size_t device = 0; device < program_.devices.size(); ++device) add_regions(device);
    add_variables();
    for (const Task& task : program_.step) {
      for (const Instruction& instruction : task.instructions) add_packed(instruction);
    }
    for (const ProgramConstant& constant : program_.constants) add_constant(constant);
    for (std::size_t lane = 0; lane < program_.lanes.size(); ++lane) {
      for (const Arena arena : {Arena::kSlots, Arena::kHostSlots}) add_lane(arena, lane);
    }
    for (std::size_t device = 0; device < program_.devices.size(); ++device) add_scratch(device);
  }

 private:
  void add_regions(std::size_t device) {
    const DevicePlan& plan = program_.devices[device];
    std::size_t end = 0, host_end = 0;
    const auto add = [&](Arena arena, std::size_t owner, std::string name, std::size_t bytes, bool on_host) {
      std::size_t& offset = on_host ? host_end : end;
      begin_[{arena, owner}] = offset;
      if (bytes != 0) {
        profile_.memory.regions.push_back({std::move(name), number(device), on_host, number(offset), number(bytes)});
      }
      offset += bytes;
    };
    add(Arena::kVariables, device, "variables", plan.variable_bytes, false);
    add(Arena::kConstants, device, "constants", plan.constant_bytes, false);
    add(Arena::kPacked, device, "packed weights", plan.packed_bytes, false);
    add(Arena::kHostVariables, device, "variables", plan.host_variable_bytes, true);
    for (std::size_t i = 0; i < program_.lanes.size(); ++i) {
      const Lane& lane = program_.lanes[i];
      if (lane.device != device) continue;
      const auto depth = static_cast<std::size_t>(lane.depth);
      add(Arena::kSlots, i, slots_name(i), depth * slot_stride(lane.slot_bytes), false);
      add(Arena::kHostSlots, i, slots_name(i), depth * slot_stride(lane.host_slot_bytes), true);
    }
    add(Arena::kScratch, device, "scratch", plan.scratch_bytes, false);
  }

  // By the stages of the tasks that use the lane.
  std::string slots_name(std::size_t lane) const {
    for (const Task& task : program_.step) {
      if (task.lane == lane) return fmt::format("slots of stage {}", task.stage);
    }
    return fmt::format("slots of lane {}", lane);
  }

  profile::Buffer placed(const BufferRef& place) const {
    const bool is_slot = place.arena == Arena::kSlots || place.arena == Arena::kHostSlots;
    profile::Buffer buffer;
    buffer.device = number(is_slot ? program_.lanes[place.owner].device : place.owner);
    buffer.on_host = place.arena == Arena::kHostVariables || place.arena == Arena::kHostSlots;
    buffer.offset = number(begin_.at({place.arena, place.owner}) + place.offset);
    buffer.bytes = number(place.bytes);
    if (is_slot) {
      const Lane& lane = program_.lanes[place.owner];
      buffer.copies = lane.depth;
      buffer.stride = number(slot_stride(buffer.on_host ? lane.host_slot_bytes : lane.slot_bytes));
    }
    return buffer;
  }

  static BufferKind kind_of(const ProgramVariable& variable) {
    switch (variable.kind) {
      case VariableKind::kParameter: return BufferKind::kWeight;
      case VariableKind::kOptimizerState: return BufferKind::kOptimizerState;
      case VariableKind::kAccumulator: return BufferKind::kAccumulator;
      case VariableKind::kBuffer:
      case VariableKind::kSetting: break;
    }
    return BufferKind::kVariable;
  }

  void add_variables() {
    for (const ProgramVariable& variable : program_.variables) {
      const auto mark = variable.name.rfind(kMark);
      for (const BufferRef& place : variable.places) {
        profile::Buffer buffer = placed(place);
        buffer.name = variable.name;
        buffer.module = module_of(mark == std::string::npos ? variable.name : variable.name.substr(mark + 3));
        buffer.kind = kind_of(variable);
        profile_.memory.buffers.push_back(std::move(buffer));
      }
    }
  }

  void add_packed(const Instruction& instruction) {
    if (!instruction.fills_packed) return;
    profile::Buffer buffer = placed(instruction.packed);
    buffer.name = "packed for " + shown_name(instruction);
    buffer.module = split_location(instruction.location).scope;
    buffer.kind = BufferKind::kWeight;
    profile_.memory.buffers.push_back(std::move(buffer));
  }

  void add_constant(const ProgramConstant& constant) {
    profile::Buffer buffer = placed(constant.buffer);
    buffer.name = "constant";
    buffer.kind = BufferKind::kConstant;
    profile_.memory.buffers.push_back(std::move(buffer));
  }

  void add_lane(Arena arena, std::size_t lane) {
    BufferLives lives(arena, lane);
    follow(lives, program_.lanes[lane].device, program_.step, 0);
    follow(lives, program_.lanes[lane].device, program_.update, program_.step.size());
    for (const BufferLife& life : lives.lives()) add(life);
  }

  // The scratch memory of a device is empty between tasks.
  void add_scratch(std::size_t device) {
    std::size_t row = 0;
    for (const auto* tasks : {&program_.step, &program_.update}) {
      for (const Task& task : *tasks) {
        BufferLives lives(Arena::kScratch, device);
        if (task.device == device) follow(lives, device, task, row);
        for (const BufferLife& life : lives.lives()) add(life);
        ++row;
      }
    }
  }

  void follow(BufferLives& lives, std::size_t device, const std::vector<Task>& tasks, std::size_t first_row) const {
    for (std::size_t i = 0; i < tasks.size(); ++i) follow(lives, device, tasks[i], first_row + i);
  }

  // What another device sends is there, at the latest, when the task that reads it begins.
  void follow(BufferLives& lives, std::size_t device, const Task& task, std::size_t row) const {
    const profile::Task& rows = profile_.tasks[row];
    const bool has_rows = task.device == device && rows.num_ops > 0;
    const auto row_of = [&](std::int64_t place) { return has_rows ? rows.first_op + place : -1; };
    for (const InputCopy& copy : task.inputs) lives.input(copy.to, row_of(0));
    for (std::size_t i = 0; i < task.instructions.size(); ++i) {
      lives.instruction(task.instructions[i], row_of(number(i)));
    }
    for (const OutputCopy& copy : task.outputs) lives.output(copy.from, row_of(rows.num_ops - 1));
  }

  void add(const BufferLife& life) {
    const bool is_scratch = life.place.arena == Arena::kScratch;
    profile::Buffer buffer = placed(life.place);
    buffer.op = life.producer_row;
    buffer.first = life.first;
    buffer.last = life.last;
    if (life.producer == nullptr) {
      buffer.name = "input";
      buffer.kind = BufferKind::kInput;
    } else {
      buffer.name = shown_name(*life.producer);
      buffer.module = split_location(life.producer->location).scope;
      const bool is_backward = life.producer->is_backward || is_in_update(life);
      buffer.kind = life.source == BufferLife::Source::kWorkspace ? BufferKind::kWorkspace
                    : is_backward                                 ? BufferKind::kGradient
                    : !is_scratch                                 ? BufferKind::kStash
                    : life.is_output                              ? BufferKind::kOutput
                                                                  : BufferKind::kActivation;
    }
    profile_.memory.buffers.push_back(std::move(buffer));
  }

  bool is_in_update(const BufferLife& life) const {
    return life.producer_row >= 0 &&
           profile_.ops[static_cast<std::size_t>(life.producer_row)].pass == profile::Pass::kUpdate;
  }

  const Program& program_;
  profile::Profile& profile_;
  std::map<std::pair<Arena, std::size_t>, std::size_t> begin_;  // of regions
};

}  // namespace

void describe_memory(const Program& program, profile::Profile& profile) { MemoryTables(program, profile).write(); }

}  // namespace aspen
