// A program: instructions over fixed buffers, made by the compiler, run by the executor. Everything it needs while
// running is decided here: kernels, offsets, workspaces, which device works on what, and who waits for whom.
//
// A program is cut into tasks. A step task runs once per micro-batch, an update task once per weight update; each
// belongs to one device, and a device runs one task at a time. A program for one device has one step task. A pipeline
// of N stages has a forward and a backward task per stage (one for both in the last), and different devices work on
// different micro-batches at once.
//
// Values that live longer than a task are kept per micro-batch in the slots of a lane: micro-batch m uses slot
// m % depth of every lane. A `send` of one device writes into a slot of another; that is the only way from device to
// device. Waits order the tasks: they carry the data dependencies and keep a slot from being written while in use.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/base/replica_grouping.h"
#include "aspen/base/variable_kind.h"

namespace aspen {

enum class Arena : std::uint8_t {
  kVariables,      // of a device
  kConstants,      // of a device
  kScratch,        // of a device, within one task
  kSlots,          // of a lane, per micro-batch
  kHostVariables,  // variables kept off the device
  kHostSlots,      // of a lane, per micro-batch, off the device
  kInputs,         // of a call: an input of the program, read where it lies
  kOutputs,        // of a call: an output of the program, written where it goes
  kPacked,         // of a device: operands as kernels want them (packing.h)
};

// Whether the memory is not the program's: it is found anew for every micro-batch of a call, and its alignment is that
// of the elements.
constexpr bool is_of_call(Arena arena) { return arena == Arena::kInputs || arena == Arena::kOutputs; }

inline constexpr std::size_t kBufferAlignment = 64;

// A place in an arena; bytes == 0 with absent == true stands for an optional input left out.
struct BufferRef {
  Arena arena = Arena::kScratch;
  std::size_t owner = 0;  // index of the lane for slots, of the input or output of a call, of the device otherwise
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool absent = false;
};

struct Instruction {
  KernelRequest request;  // what the kernel was made for; also for messages, traces and checks of the results
  std::string location;   // "conv1 (model.py:42)"
  std::shared_ptr<const Kernel> kernel;  // of several instructions, if they ask for the same
  std::vector<BufferRef> inputs, outputs;
  BufferRef workspace;
  BufferRef packed;             // no bytes: the kernel packs nothing, or does so in every run
  bool fills_packed = false;    // the first of those that share what is packed
  bool is_copy = false;         // of the one input to the one output, whatever the op
  bool spans_replicas = false;  // reads its first input, or writes to it, in every replica: one pointer for each
  bool is_backward = false;     // of the backward pass
  bool updates_weight = false;  // an update of an optimiser (aspen/ops/optimizer): reads a gradient, writes a weight
};

// What a device holds apart from its lanes.
struct DevicePlan {
  std::size_t variable_bytes = 0, constant_bytes = 0, scratch_bytes = 0, host_variable_bytes = 0;
  std::size_t packed_bytes = 0;
  std::size_t budget_bytes = 0;  // that the user allows it to take; 0: no limit
};

struct Lane {
  std::size_t device = 0;
  std::int64_t depth = 1;                           // micro-batches that may be under way
  std::size_t slot_bytes = 0, host_slot_bytes = 0;  // of one micro-batch
};

// Bytes from one slot to the next: every slot is aligned like a buffer.
constexpr std::size_t slot_stride(std::size_t slot_bytes) {
  return (slot_bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Task `task` of the same kind (step or update) must have finished round m - lag before round m begins. A round is a
// micro-batch for step tasks, a weight update for update tasks.
struct Wait {
  std::size_t task = 0;
  std::int64_t lag = 0;
  bool in_all_replicas = false;  // not in the task's own alone
};

// An input reaches a task. One that goes to Arena::kInputs is there already.
struct InputCopy {
  std::size_t input = 0;  // of the program
  BufferRef to;
};

// An output leaves a task. One that comes from its own place in Arena::kOutputs is there already.
struct OutputCopy {
  std::size_t output = 0;  // of the program
  BufferRef from;
};

struct Task {
  std::string name;  // "forward of stage 1"
  std::size_t device = 0;
  std::size_t lane = 0;
  std::int64_t stage = 0;
  double cost = 1;                // relative; only for choosing an order
  double nanoseconds = 1e9;       // a guess, for choosing threads: short tasks are not worth one of their own
  bool moves = false;             // only brings values to a device that computes, while that computes
  std::vector<InputCopy> inputs;  // before the instructions
  std::vector<Instruction> instructions;
  std::vector<OutputCopy> outputs;  // after the instructions
  std::vector<Wait> waits;
};

struct ProgramTensor {
  std::string name;
  TensorType type;
};

struct ProgramVariable {
  std::string name;
  TensorType type;                // of one replica's whole value
  std::vector<BufferRef> places;  // first its home, then copies on other devices, refreshed after every update
  double initial = 0;
  VariableKind kind =
      VariableKind::kParameter;  // an accumulator returns to `initial` when a run ends before the update
  bool reduced = false;          // added up over the replicas of its group before an update
  bool sharded = false;          // each replica keeps its shard only (see shard_of); places hold one shard
  bool gathered = false;         // an update writes each replica's own shard; the others' are fetched after it
  ReplicaGrouping grouping;      // replicas that hold the same value
};

// An output of the program that is no result of a step: what a variable holds after the last micro-batch of each weight
// update, and until then what it held before.
struct VariableOutput {
  std::size_t output = 0;    // of the program
  std::size_t variable = 0;  // of the program; not sharded
};

// Where a stage begins that the compiler has cut itself: see compiler/placement/cut_stages.h.
struct StageStart {
  std::string module;  // with whose call it begins, as the user writes it
  std::int64_t device = 0;
};

struct ProgramConstant {
  BufferRef buffer;
  std::vector<std::byte> bytes;
};

struct Program {
  std::string name;
  std::vector<ProgramTensor> inputs, outputs;  // of one micro-batch
  std::vector<ProgramVariable> variables;
  std::vector<VariableOutput> variable_outputs;
  std::vector<std::string> tensor_names;  // of the graph, as far as the host may ask for them
  std::vector<ProgramConstant> constants;
  std::vector<DevicePlan> devices;
  std::vector<Lane> lanes;
  std::vector<StageStart> stage_starts;    // of all stages but the first, if the compiler has cut them
  std::vector<Task> step;                  // in an order in which one device could run them
  std::vector<Task> update;                // likewise
  std::int64_t gradient_accumulation = 1;  // micro-batches between two updates
  bool training = false;                   // false: all device iterations of a run may be under way at once
  std::size_t replicas = 1;
  ReplicaGrouping input_grouping{.kind =
                                     ReplicaGrouping::Kind::kNone};  // replicas of one group read the same micro-batch
  bool has_transfers = true;          // false: no input is read and no output reaches the host
  bool checks_floats = false;         // stops at the first op that makes an infinity or NaN from finite inputs
  bool adjusts_loss_scaling = false;  // by itself, and leaves out updates with gradients that overflow
};

// How long a device computes, a guess from shapes: for each micro-batch, and for an update of the weights.
struct DeviceGuess {
  double micro_batch = 0, update = 0;
};
DeviceGuess guessed_nanoseconds(const Program& program, std::size_t device);
// The same for a step of so many micro-batches, as if devices never waited for each other: that of the busiest.
double guessed_nanoseconds_of_step(const Program& program, std::int64_t micro_batches);

// Bytes of one device of one replica, as planned: variables, constants, scratch, packed operands and all slots of its
// lanes.
std::size_t planned_bytes(const Program& program, std::size_t device);
// The same for what is kept off the device on its behalf.
std::size_t planned_host_bytes(const Program& program, std::size_t device);
// Of these, all slots of the device's lanes.
std::size_t planned_slot_bytes(const Program& program, std::size_t device);
std::size_t planned_host_slot_bytes(const Program& program, std::size_t device);

}  // namespace aspen
