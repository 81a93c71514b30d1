#include "aspen/program_file/program_check.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "aspen/program_file/instruction_check.h"
#include "aspen/program_file/place_check.h"
#include "aspen/runtime/thread_plan.h"
#include "aspen/runtime/variable_refresh.h"

namespace aspen {
namespace {

// Rounds are counted in 32 bits (ProgressCounter).
constexpr std::int64_t kMostRounds = std::numeric_limits<std::int32_t>::max() - 1;
// What an executor keeps beside the arenas, at most, for each thing a program lists.
constexpr std::size_t kBytesOfThing = 4096;

// Sums and products that stay at the largest number instead of beginning anew.
class Total {
 public:
  void add(std::size_t bytes, std::size_t times = 1) {
    std::size_t product = 0;
    if (__builtin_mul_overflow(bytes, times, &product) || __builtin_add_overflow(bytes_, product, &bytes_)) {
      bytes_ = std::numeric_limits<std::size_t>::max();
    }
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

// Of one replica.
std::size_t memory_of_replica(const Program& program) {
  Total total;
  for (const DevicePlan& device : program.devices) {
    for (std::size_t bytes :
         {device.variable_bytes, device.constant_bytes, device.scratch_bytes, device.host_variable_bytes}) {
      total.add(bytes);
    }
  }
  for (const Lane& lane : program.lanes) {
    for (std::size_t bytes : {lane.slot_bytes, lane.host_slot_bytes}) {
      total.add(bytes, static_cast<std::size_t>(lane.depth));
      total.add(kBufferAlignment, static_cast<std::size_t>(lane.depth));
    }
  }
  std::size_t things = program.devices.size() + program.lanes.size() + program.variables.size();
  for (const auto* tasks : {&program.step, &program.update}) {
    things += tasks->size();
    for (const Task& task : *tasks) things += task.instructions.size() / 8;
  }
  total.add(kBytesOfThing, things);
  return total.bytes();
}

class ProgramCheck {
 public:
  ProgramCheck(const Program& program, const ProgramLimits& limits)
      : program_(program), limits_(limits), places_(program), instructions_(program) {}

  void run() {
    check_sizes();
    check_grouping(program_.input_grouping);
    for (const ProgramTensor& tensor : program_.inputs) check_type(tensor.type);
    for (const ProgramTensor& tensor : program_.outputs) check_narrow_type(tensor.type);
    check_variables();
    for (const ProgramConstant& constant : program_.constants) {
      expect(constant.buffer.arena == Arena::kConstants, "a constant lies where none should");
      places_.check(constant.buffer, constant.bytes.size());
    }
    expect(program_.training || program_.update.empty(), "a program for inference updates weights");
    check_tasks(program_.step, false);
    check_tasks(program_.update, true);
    check_outputs();
    check_exchanges();
  }

 private:
  // Before anything else: nothing below asks for more than this.
  void check_sizes() const {
    expect(program_.replicas >= 1, "there are {} replicas", program_.replicas);
    const std::size_t devices = std::max<std::size_t>(1, program_.devices.size());
    expect(program_.replicas <= limits_.devices / devices,
           "it is for {} replicas of {} devices; at most {} work together", program_.replicas, devices,
           limits_.devices);
    expect(program_.gradient_accumulation >= 1 && program_.gradient_accumulation <= kMostRounds,
           "an update comes after {} micro-batches", program_.gradient_accumulation);
    for (const Lane& lane : program_.lanes) {
      check_index(lane.device, program_.devices.size(), "device");
      expect(lane.depth >= 1 && lane.depth <= kMostRounds, "a lane has a depth of {}", lane.depth);
    }
    const std::size_t bytes = memory_of(program_);
    expect(bytes <= limits_.memory, "it needs {} bytes of memory, and there are {}", bytes, limits_.memory);
  }

  static void check_narrow_type(const TensorType& type) {
    check_type(type);
    expect(type.dtype != DType::kI64, "an output or a variable is {}; only inputs are", to_string(type));
  }

  void check_grouping(const ReplicaGrouping& grouping) const {
    if (!has_size(grouping.kind)) return;
    expect(grouping.size >= 1 && program_.replicas % grouping.size == 0, "{} replicas do not form groups of {}",
           program_.replicas, grouping.size);
  }

  // -- variables and outputs ------------------------------------------------------------------------------------------
  void check_variables() const {
    std::set<std::string_view> names;
    for (const ProgramVariable& variable : program_.variables) {
      expect(names.insert(variable.name).second, "there are two variables \"{}\"", variable.name);
      check(variable);
    }
  }

  void check(const ProgramVariable& variable) const {
    check_narrow_type(variable.type);
    check_grouping(variable.grouping);
    expect(!variable.places.empty(), "variable \"{}\" has no place", variable.name);
    const bool is_spread = variable.sharded || variable.gathered;
    expect(!is_spread || variable.grouping.num_groups(program_.replicas) == 1,
           "variable \"{}\" is in shards, but replicas do not share it", variable.name);
    expect(!variable.sharded || (!variable.reduced && !variable.gathered),
           "variable \"{}\" is in shards, which are neither reduced nor gathered", variable.name);
    std::size_t bytes = variable.type.bytes();
    if (variable.sharded) {
      bytes = static_cast<std::size_t>(shard_elements(variable.type.numel(), program_.replicas)) *
              size_of(variable.type.dtype);
    }
    for (const BufferRef& place : variable.places) {
      expect(place.arena == Arena::kVariables || place.arena == Arena::kHostVariables,
             "variable \"{}\" lies where none should", variable.name);
      places_.check(place, bytes);
    }
  }

  // Every output comes from one place.
  void check_outputs() const {
    std::vector<int> givers(program_.outputs.size());
    for (const VariableOutput& entry : program_.variable_outputs) {
      check_index(entry.output, program_.outputs.size(), "output");
      check_index(entry.variable, program_.variables.size(), "variable");
      const ProgramVariable& variable = program_.variables[entry.variable];
      expect(!variable.sharded && variable.type.bytes() == program_.outputs[entry.output].type.bytes(),
             "output {} is not what its variable holds", entry.output);
      expect(computes(program_, variable.places[0].owner), "output {} is on a device that computes nothing",
             entry.output);
      ++givers[entry.output];
    }
    for (const Task& task : program_.step) {
      for (const OutputCopy& copy : task.outputs) ++givers[copy.output];
    }
    for (std::size_t i = 0; i < givers.size(); ++i) {
      expect(givers[i] == 1 || (givers[i] == 0 && !program_.has_transfers), "output {} comes from {} places", i,
             givers[i]);
    }
  }

  // -- tasks ----------------------------------------------------------------------------------------------------------
  void check_tasks(const std::vector<Task>& tasks, bool is_update) const {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const Task& task = tasks[i];
      check_index(task.device, program_.devices.size(), "device");
      check_index(task.lane, program_.lanes.size(), "lane");
      expect(std::isfinite(task.cost) && std::isfinite(task.nanoseconds) && task.cost >= 0 && task.nanoseconds >= 0,
             "task {} takes {} and {} ns", i, task.cost, task.nanoseconds);
      check_transfers(task, is_update);
      for (const Wait& wait : task.waits) check(wait, i, tasks.size(), is_update);
      for (const Instruction& instruction : task.instructions) {
        try {
          instructions_.check(instruction, task.device, is_update);
          check_call_memory(instruction, task, is_update);
        } catch (const Error& error) {
          throw FileError("{}\n  in task \"{}\"", error.what(), task.name);
        }
      }
    }
    // A crew that computes nothing takes no part in updates: who waits for it would wait forever.
    for (const Task& task : tasks) {
      expect(!is_update || computes(program_, task.device), "task \"{}\" updates on a device that computes nothing",
             task.name);
    }
  }

  void check_transfers(const Task& task, bool is_update) const {
    expect(!is_update || (task.inputs.empty() && task.outputs.empty()), "an update has inputs or outputs");
    expect(program_.has_transfers || task.inputs.empty(), "a program without transfers has inputs");
    for (const InputCopy& copy : task.inputs) {
      check_index(copy.input, program_.inputs.size(), "input");
      const std::size_t bytes = program_.inputs[copy.input].type.bytes();
      if (copy.to.arena == Arena::kInputs) {
        places_.check_read(copy.to, bytes, task.device);
        expect(copy.to.owner == copy.input, "input {} lies where input {} should", copy.input, copy.to.owner);
      } else {
        places_.check_written(copy.to, bytes, task.device);
        expect(!is_of_call(copy.to.arena), "input {} is copied to an output", copy.input);
      }
    }
    for (const OutputCopy& copy : task.outputs) {
      check_index(copy.output, program_.outputs.size(), "output");
      places_.check_read(copy.from, program_.outputs[copy.output].type.bytes(), task.device);
      check_call_memory(copy.from, task);
    }
  }

  // The memory of a call is there while micro-batches run, and an output is one task's business.
  void check_call_memory(const BufferRef& place, const Task& task) const {
    if (place.absent || !is_of_call(place.arena)) return;
    expect(place.arena == Arena::kOutputs || program_.has_transfers, "an input is read without transfers");
    const auto gives_it = [&](const OutputCopy& copy) {
      return copy.output == place.owner && copy.from.arena == Arena::kOutputs && copy.from.owner == place.owner;
    };
    expect(place.arena == Arena::kInputs || std::any_of(task.outputs.begin(), task.outputs.end(), gives_it),
           "output {} is written by a task that does not give it", place.owner);
  }

  void check_call_memory(const Instruction& instruction, const Task& task, bool is_update) const {
    expect(!is_of_call(instruction.workspace.arena), "a workspace is in the memory of a call");
    bool is_first = true;
    for (const auto* places : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferRef& place : *places) {
        const bool is_own = !is_update && !(is_first && instruction.spans_replicas);
        expect(place.absent || !is_of_call(place.arena) || is_own, "op {} reaches into the memory of a call",
               instruction.request.op);
        check_call_memory(place, task);
        is_first = false;
      }
    }
  }

  // A wait within a round leads to an earlier task: so there is an order that meets all of them. Replicas may share a
  // thread, on which one goes through all steps before another; updates they go through side by side.
  void check(const Wait& wait, std::size_t task, std::size_t num_tasks, bool is_update) const {
    check_index(wait.task, num_tasks, "task");
    expect(wait.lag >= 0 && wait.lag <= kMostRounds && (wait.lag > 0 || wait.task < task),
           "task {} waits for task {} in vain", task, wait.task);
    expect(!wait.in_all_replicas || is_update, "a step waits for all replicas");
  }

  // What an update writes is copied to all places of a variable, by the devices that have them.
  void check_exchanges() const {
    for (const ProgramVariable& variable : program_.variables) {
      if ((!variable.gathered && variable.places.size() == 1) || !is_updated(program_, variable)) continue;
      for (const BufferRef& place : variable.places) {
        expect(computes(program_, place.owner), "variable \"{}\" has a place on a device that computes nothing",
               variable.name);
      }
    }
  }

  const Program& program_;
  const ProgramLimits& limits_;
  PlaceCheck places_;
  InstructionCheck instructions_;
};

}  // namespace

std::uint64_t memory_of_this_machine() {
  struct sysinfo machine = {};
  ::sysinfo(&machine);
  return (std::uint64_t{machine.totalram} + machine.totalswap) * machine.mem_unit;
}

std::size_t memory_of(const Program& program) {
  Total total;
  total.add(memory_of_replica(program), program.replicas);
  return total.bytes();
}

void check_program(const Program& program, const ProgramLimits& limits) { ProgramCheck(program, limits).run(); }

}  // namespace aspen
