// The profile of a run: what a program is, what its devices did and when, and what lies in their memory. Filled by the
// runtime and the front end, kept as JSON (profile_json.h, docs/profile-format.md), shown by the report page.
//
// Times are nanoseconds since the profile began, durations nanoseconds. Tables refer to each other by row; -1: none.
// Everything measured covers the whole run, but for the trace, which may hold some calls only, ops, which are timed in
// some calls, and calls between the first and the latest, if there are very many.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "aspen/profile/analysis.h"

namespace aspen::profile {

inline constexpr std::int64_t kVersion = 1;

struct Option {
  std::string name, value;  // "replicationFactor", "2"
};

// What was run.
struct Run {
  std::string model;      // "training", or what modelName() said
  std::string aspen;      // version that wrote the profile: "0.1.0"
  std::string created;    // "2024-05-01T12:00:00Z", when the profile began
  std::string backend;    // "cpu, avx512, oneDNN 2.6.3"
  std::string execution;  // "single device", "pipelined", "sharded", "phased"
  bool training = false;
  bool complete = false;  // false: the run was still under way when this was written
  std::int64_t replicas = 1;
  std::int64_t gradient_accumulation = 1;
  std::int64_t device_iterations = 1;
  std::int64_t micro_batch_size = 1;  // samples one replica sees in one step
  std::vector<Option> options;        // those that differ from their defaults
};

// What a processor can do at best, measured or known; 0: not known.
struct Peak {
  double flops_per_second = 0, bytes_per_second = 0;
};

struct Machine {
  std::string processor;      // "AMD EPYC 7763"
  std::int64_t num_cpus = 1;  // that the process may use
  Peak thread, all;           // of one thread alone, of all cpus together
};

// A part of the compilation; one within another has a longer name: "passes", "passes/differentiate".
struct Phase {
  std::string name;
  std::int64_t duration = 0;
};

// One device of one replica, and where it runs. Workers of one crew share a thread and take turns.
struct Worker {
  std::int64_t replica = 0, device = 0, crew = 0;
  std::int64_t num_threads = 1;  // that its kernels may use
};

enum class Section : std::uint8_t { kStep, kUpdate };

// Before micro-batch m of the waiting task begins, `on` must have finished micro-batch m - lag.
struct Wait {
  std::int64_t task = 0, on = 0, lag = 0;
  bool in_all_replicas = false;
};

// A part of the program that one device runs in one go. Its ops are rows [first_op, first_op + num_ops) of the ops.
struct Task {
  std::string name;  // "forward of stage 1"
  Section section = Section::kStep;
  std::int64_t device = 0, stage = 0, phase = 0;
  std::int64_t first_op = 0, num_ops = 0;
};

enum class Pass : std::uint8_t { kForward, kBackward, kRecompute, kUpdate };

// An instruction of the program. Rows lie in the order of tasks and, within a task, in the order in which they run.
struct Op {
  std::string name;    // "dot"; of a group its parts: "add, mul, relu"
  std::string module;  // "layer1/0/conv1"
  std::string source;  // "model.py:42, Decoder.forward"
  std::string text;    // "dot(f32[8, 16], f32[16, 4]) -> f32[8, 4]"
  std::string kernel;  // which candidate serves it; "": there is no choice
  Pass pass = Pass::kForward;
  std::int64_t task = 0;
  std::int64_t num_parts = 1;  // ops fused into this one
  bool calls_host = false;
  bool is_copy = false;  // moves data and computes nothing
  // Of one call.
  double flops = 0;
  std::int64_t bytes_read = 0, bytes_written = 0;
  // Of all calls in all replicas that were timed.
  std::int64_t calls = 0, duration = 0, shortest = 0, longest = 0;
};

// A call of the wrapped model: device_iterations * gradient_accumulation micro-batches on every replica.
struct Call {
  std::int64_t begin = 0, duration = 0;
  std::int64_t loading = 0;  // before it, since the end of the call before, waiting for the data loader
  std::int64_t samples = 0;  // of all replicas
};

enum class BlockKind : std::uint8_t {
  kForward,
  kBackward,
  kUpdate,
  kInput,     // brings inputs from the host
  kOutput,    // takes outputs to the host
  kExchange,  // adds up gradients of replicas, refreshes copies of variables
  kTransfer,  // only moves values between devices, or to and from host memory
};

// A stretch of time in which a worker did one thing; what lies between two blocks of a worker is waiting. A task that
// runs forward and backward ops is two blocks.
struct Block {
  std::int64_t worker = 0, call = 0;
  BlockKind kind = BlockKind::kForward;
  std::int64_t task = -1;
  std::int64_t micro_batch = -1;  // of the call, counted over device iterations; of an update, the last one before it
  std::int64_t begin = 0, duration = 0;
  std::int64_t first_op = -1, num_ops = 0;  // it ran, one after the other
  std::int64_t op_durations = -1;  // where in Trace::op_durations those of its ops begin; -1: they were not taken
};

// Something on the host with a name: loading of data, a trace point of the user's.
struct HostEvent {
  std::string track, name;
  std::int64_t begin = 0, duration = 0;
};

struct Trace {
  std::vector<Block> blocks;  // by begin
  std::vector<std::int64_t> op_durations;
  std::vector<HostEvent> host;
};

enum class BufferKind : std::uint8_t {
  kWeight,
  kOptimizerState,
  kAccumulator,
  kVariable,  // another: running statistics, settings
  kConstant,
  kActivation,  // of the forward pass
  kStash,       // an activation kept for another task of its micro-batch
  kGradient,
  kWorkspace,
  kInput,
  kOutput,
};

// A place in the memory of a device (of every replica: all have the same plan).
struct Buffer {
  std::string name;    // of the variable or value it holds first: "fc1.weight"
  std::string module;  // "fc1"
  BufferKind kind = BufferKind::kActivation;
  std::int64_t device = 0;
  bool on_host = false;     // kept off the device on its behalf
  std::int64_t op = -1;     // that fills it first
  std::int64_t offset = 0;  // in the device's memory, or in what is kept for it on the host
  std::int64_t bytes = 0;
  std::int64_t copies = 1;  // one per micro-batch under way ...
  std::int64_t stride = 0;  // ... so many bytes apart
  // Rows of ops, inclusive: alive from the first to the last. -1 and -1: always.
  std::int64_t first = -1, last = -1;
};

// A contiguous part of a device's memory.
struct Region {
  std::string name;  // "variables", "constants", "slots of stage 0", "scratch"
  std::int64_t device = 0;
  bool on_host = false;
  std::int64_t offset = 0, bytes = 0;
};

struct Memory {
  std::int64_t budget = 0;  // bytes one device may use; 0: no limit was set
  std::vector<Region> regions;
  std::vector<Buffer> buffers;
};

struct Profile {
  Run run;
  Machine machine;
  std::vector<Phase> compilation;
  bool from_cache = false;  // compiled earlier, and loaded
  std::vector<Worker> workers;
  std::vector<Task> tasks;
  std::vector<Wait> waits;
  std::vector<Op> ops;
  std::vector<Call> calls;
  Trace trace;
  Memory memory;
  Analysis analysis;  // made from all of the above by analyse(), when the profile is written
};

}  // namespace aspen::profile
