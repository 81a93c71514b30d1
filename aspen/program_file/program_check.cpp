#include "aspen/program_file/program_check.h"

#include <limits>

#include "aspen/compiler/ir/builder.h"
#include "aspen/program_file/byte_stream.h"

namespace aspen {
namespace {

constexpr std::size_t kMaxRank = 64;
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

template <class... Args>
void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw FileError(format, std::forward<Args>(args)...);
}

void check_type(const TensorType& type) {
  expect(type.shape.size() <= kMaxRank, "a tensor has {} axes", type.shape.size());
  std::int64_t size = static_cast<std::int64_t>(size_of(type.dtype));
  for (std::int64_t extent : type.shape) {
    expect(extent >= 0 && (extent == 0 || size <= kLargest / extent), "a tensor has shape {}", to_string(type.shape));
    size *= extent;
  }
}

class ProgramCheck {
 public:
  explicit ProgramCheck(const Program& program) : program_(program), builder_(graph_) {}

  void run() {
    expect(program_.replicas >= 1, "there are {} replicas", program_.replicas);
    expect(program_.gradient_accumulation >= 1, "an update comes after {} micro-batches",
           program_.gradient_accumulation);
    check_grouping(program_.input_grouping);
    for (const Lane& lane : program_.lanes) {
      check_index(lane.device, program_.devices.size(), "device");
      expect(lane.depth >= 1, "a lane has a depth of {}", lane.depth);
    }
    for (const ProgramTensor& tensor : program_.inputs) check_type(tensor.type);
    for (const ProgramTensor& tensor : program_.outputs) check_type(tensor.type);
    for (const ProgramVariable& variable : program_.variables) check(variable);
    for (const VariableOutput& output : program_.variable_outputs) check(output);
    for (const ProgramConstant& constant : program_.constants) {
      expect(constant.buffer.arena == Arena::kConstants && !constant.buffer.absent,
             "a constant lies where none should");
      check_place(constant.buffer, constant.bytes.size());
    }
    check(program_.step);
    check(program_.update);
  }

 private:
  static void check_index(std::size_t index, std::size_t count, const char* what) {
    expect(index < count, "there is no {} {}", what, index);
  }

  void check_grouping(const ReplicaGrouping& grouping) const {
    if (!has_size(grouping.kind)) return;
    expect(grouping.size >= 1 && program_.replicas % grouping.size == 0, "{} replicas do not form groups of {}",
           program_.replicas, grouping.size);
  }

  std::size_t arena_bytes(const BufferRef& place) const {
    const bool in_lane = place.arena == Arena::kSlots || place.arena == Arena::kHostSlots;
    check_index(place.owner, in_lane ? program_.lanes.size() : program_.devices.size(), in_lane ? "lane" : "device");
    switch (place.arena) {
      case Arena::kVariables: return program_.devices[place.owner].variable_bytes;
      case Arena::kConstants: return program_.devices[place.owner].constant_bytes;
      case Arena::kScratch: return program_.devices[place.owner].scratch_bytes;
      case Arena::kHostVariables: return program_.devices[place.owner].host_variable_bytes;
      case Arena::kSlots: return program_.lanes[place.owner].slot_bytes;
      case Arena::kHostSlots: return program_.lanes[place.owner].host_slot_bytes;
    }
    return 0;
  }

  void check_place(const BufferRef& place, std::size_t bytes) const {
    expect(!place.absent, "a buffer is absent that must be there");
    expect(place.bytes == bytes, "a buffer has {} bytes for a tensor of {}", place.bytes, bytes);
    check_place(place);
  }
  void check_place(const BufferRef& place) const {
    if (place.absent) return;
    const std::size_t room = arena_bytes(place);
    expect(place.bytes <= room && place.offset <= room - place.bytes, "a buffer of {} bytes lies outside of its arena",
           place.bytes);
    expect(place.offset % kBufferAlignment == 0, "a buffer begins at byte {}", place.offset);
  }

  void check(const ProgramVariable& variable) const {
    check_type(variable.type);
    check_grouping(variable.grouping);
    expect(!variable.places.empty(), "variable \"{}\" has no place", variable.name);
    std::size_t bytes = variable.type.bytes();
    if (variable.sharded) {
      bytes = static_cast<std::size_t>(shard_elements(variable.type.numel(), program_.replicas)) *
              size_of(variable.type.dtype);
    }
    for (const BufferRef& place : variable.places) {
      expect(place.arena == Arena::kVariables || place.arena == Arena::kHostVariables,
             "variable \"{}\" lies where none should", variable.name);
      check_place(place, bytes);
    }
  }

  void check(const VariableOutput& output) const {
    check_index(output.output, program_.outputs.size(), "output");
    check_index(output.variable, program_.variables.size(), "variable");
    expect(!program_.variables[output.variable].sharded, "a sharded variable is an output");
    expect(program_.variables[output.variable].type.bytes() == program_.outputs[output.output].type.bytes(),
           "output {} is not what its variable holds", output.output);
  }

  void check(const std::vector<Task>& tasks) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const Task& task = tasks[i];
      check_index(task.device, program_.devices.size(), "device");
      check_index(task.lane, program_.lanes.size(), "lane");
      for (const InputCopy& copy : task.inputs) {
        check_index(copy.input, program_.inputs.size(), "input");
        check_place(copy.to, program_.inputs[copy.input].type.bytes());
      }
      for (const OutputCopy& copy : task.outputs) {
        check_index(copy.output, program_.outputs.size(), "output");
        check_place(copy.from, program_.outputs[copy.output].type.bytes());
      }
      for (const Wait& wait : task.waits) {
        check_index(wait.task, tasks.size(), "task");
        expect(wait.lag > 0 || (wait.lag == 0 && wait.task < i), "task {} waits for task {} in vain", i, wait.task);
      }
      for (const Instruction& instruction : task.instructions) check(instruction);
    }
  }

  void check(const Instruction& instruction) {
    check_place(instruction.workspace);
    if (instruction.is_copy) {
      expect(instruction.inputs.size() == 1 && instruction.outputs.size() == 1, "a copy has not one place to go");
      check_place(instruction.inputs[0], instruction.outputs[0].bytes);
      check_place(instruction.outputs[0], instruction.outputs[0].bytes);
      return;
    }
    const KernelRequest& request = instruction.request;
    expect(request.inputs.size() == instruction.inputs.size() && request.outputs.size() == instruction.outputs.size(),
           "op {} has another number of buffers than of operands", request.op);
    std::vector<Value*> inputs;
    for (std::size_t i = 0; i < request.inputs.size(); ++i) {
      expect(request.inputs[i].present != instruction.inputs[i].absent, "an operand of op {} has no buffer",
             request.op);
      inputs.push_back(nullptr);
      if (!request.inputs[i].present) continue;
      check_type(request.inputs[i].type);
      check_place(instruction.inputs[i], request.inputs[i].type.bytes());
      inputs.back() = graph_.add_input(fmt::format("x{}", num_values_++), request.inputs[i].type);
    }
    for (std::size_t i = 0; i < request.outputs.size(); ++i) {
      check_type(request.outputs[i]);
      check_place(instruction.outputs[i], request.outputs[i].bytes());
    }
    check_results(request, std::move(inputs));
  }

  // The op's own rule says what it makes of such operands.
  void check_results(const KernelRequest& request, std::vector<Value*> inputs) {
    const Op* op = nullptr;
    try {
      op = builder_.emit(request.op, std::move(inputs), request.attrs);
    } catch (const UserError& error) {
      throw FileError("{}", error.what());
    }
    expect(op->num_outputs() == request.outputs.size(), "op {} has {} results where {} are stored", request.op,
           op->num_outputs(), request.outputs.size());
    for (std::size_t i = 0; i < request.outputs.size(); ++i) {
      expect(op->output(i)->type() == request.outputs[i], "result {} of op {} is {} where {} is stored", i, request.op,
             to_string(op->output(i)->type()), to_string(request.outputs[i]));
    }
  }

  const Program& program_;
  Graph graph_;
  Builder builder_;
  std::size_t num_values_ = 0;
};

}  // namespace

void check_program(const Program& program) { ProgramCheck(program).run(); }

}  // namespace aspen
