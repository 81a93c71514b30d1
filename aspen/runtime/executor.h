// The executor: owns the memory of one loaded program and runs it. One call runs D device iterations of G micro-batches
// each on every replica, without allocating and without calling back except to ask whether to stop. Devices that can
// work at the same time have threads that live as long as the executor (see thread_plan.h); a program that needs only
// one runs on the thread of the caller.
//
// As long as it lives it is registered as attached (aspen/ipus/registration.h), with the time that each device
// computes.
//
// Any thread may call it. Calls take turns in the order in which they come, and several executors run at the same time.
// A call from within a run, by an op on the host or by should_stop, is a UserError: it would wait for itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aspen/runtime/program.h"

namespace aspen {

// Which micro-batches of an output reach the host.
enum class OutputMode : std::uint8_t { kFinal, kEveryN, kAll, kSum };

struct HostOutput {
  // Room for every micro-batch the mode returns, per micro-batch one block per replica. The program may write here at
  // any time of the run, and nothing else of the call lies here.
  void* data = nullptr;
  OutputMode mode = OutputMode::kAll;
  std::int64_t period = 1;  // kEveryN only; divides the device iterations
};

struct RunRequest {
  std::int64_t device_iterations = 1;
  std::int64_t gradient_accumulation = 1;
  // Per program input: device_iterations * gradient_accumulation * input groups micro-batches, in that order; aligned
  // like its elements, and unchanged until the run ends: the program may read it at any time.
  std::vector<const void*> inputs;
  std::vector<HostOutput> outputs;  // per program output
  // Asked now and then by the calling thread, also while it waits for other calls; true ends the run with Interrupted.
  std::function<bool()> should_stop;
};

// How one device of one replica spent the last run.
struct DeviceTime {
  std::size_t replica = 0, device = 0;
  double total = 0;    // seconds from the start of the run to its end
  double waiting = 0;  // of these, waiting for other devices
  struct TaskTime {
    std::string task;
    std::int64_t runs = 0;
    double seconds = 0;
  };
  std::vector<TaskTime> tasks;  // step tasks, then update tasks, of this device
};

// When the inputs and outputs of a run were transferred. Seconds of a clock of which only differences have a meaning,
// one for each micro-batch that is transferred and each replica, in that order.
struct TransferTimes {
  struct Tensor {
    std::vector<double> begin, end;
  };
  std::vector<Tensor> inputs, outputs;  // of the program; an input that no op reads arrives in no time
  // From the begin of the run to its end, without transfers of the first replica that no other device made use of.
  double computing = 0;
  bool has_run = false;  // to its end; otherwise there is nothing here
};

struct DeviceMemory {
  std::size_t replica = 0, device = 0;
  std::size_t planned = 0, measured = 0;            // bytes on the device
  std::size_t planned_host = 0, measured_host = 0;  // bytes off the device
  // What the planned bytes are for: parts of the device, and all slots of its lanes.
  DevicePlan parts;
  std::size_t slot_bytes = 0, host_slot_bytes = 0;
};

struct ExecutorOptions {
  // To share out between the devices; 0: ASPEN_NUM_THREADS or, without it, as many as the process may use.
  std::size_t num_threads = 0;
  // A thread for every device of every replica, also where it is not worth it: to see what threads do to a program.
  bool thread_per_device = false;
  // Fills the memory with a pattern first, so that memory() can tell which bytes a run has touched.
  bool measures_memory = false;
  // The id of the device that the caller has a lease of; nothing: the program runs wherever there is room.
  std::optional<std::int64_t> device = {};
};

class Executor {
 public:
  // Threads do not follow a fork: the child can read variables and destroy the executor, but not run several devices.
  explicit Executor(std::shared_ptr<const Program> program, ExecutorOptions options = {});
  ~Executor();

  const Program& program() const;

  // The host's view of a variable: one value, or one per group of replicas (see ReplicaGrouping), one after the other.
  // A variable that every replica changes on its own is read from replica 0 (of each group).
  std::size_t host_bytes(std::string_view name) const;
  void write_variable(std::string_view name, std::span<const std::byte> bytes);
  void read_variable(std::string_view name, std::span<std::byte> bytes) const;
  // What every replica holds of a variable that is not sharded, one after the other; UserError as above.
  void write_replicas(std::string_view name, std::span<const std::byte> bytes);
  void read_replicas(std::string_view name, std::span<std::byte> bytes) const;

  // Seed and number of micro-batches run so far: the whole state of the random ops.
  void set_random_state(std::uint64_t seed, std::uint64_t step);
  std::uint64_t seed() const;
  std::uint64_t step() const;

  // An error in an op stops all devices and names the op, where it was captured, device, stage, micro-batch and, if
  // there are several, the replica. After Interrupted or an error the executor may be used again:
  // - No device begins an update before all have finished the micro-batches for it, and an update that has begun is
  //   finished by all. So after Interrupted or an error in a step, what updates write holds what the last finished
  //   update left, on every device; what steps write themselves (running statistics) holds what the device came to.
  // - Only an error inside an update leaves some variables updated and others not. Replicas and copies still agree.
  // - Accumulators are back at their initial value.
  void run(const RunRequest& request);

  std::vector<DeviceTime> times() const;     // of the last run
  TransferTimes transfers() const;           // likewise
  std::vector<DeviceMemory> memory() const;  // measured: 0 unless ExecutorOptions::measures_memory

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace aspen
