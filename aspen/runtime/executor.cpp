#include "aspen/runtime/executor.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "aspen/base/error.h"
#include "aspen/base/log.h"
#include "aspen/ipus/registration.h"
#include "aspen/runtime/call_queue.h"
#include "aspen/runtime/cpu_share.h"
#include "aspen/runtime/crew.h"
#include "aspen/runtime/output_sink.h"
#include "aspen/runtime/overflow_watch.h"
#include "aspen/runtime/replica_memory.h"
#include "aspen/runtime/replica_reduction.h"
#include "aspen/runtime/run_control.h"
#include "aspen/runtime/run_recorder.h"
#include "aspen/runtime/spin.h"
#include "aspen/runtime/task_order.h"
#include "aspen/runtime/thread_plan.h"
#include "aspen/runtime/thread_team.h"
#include "aspen/runtime/variable_store.h"
#include "aspen/runtime/worker.h"
#include "aspen/runtime/worker_pool.h"

namespace aspen {
namespace {

std::vector<ReplicaMemory> allocate(const Program& program, const ExecutorOptions& options) {
  auto fill = options.measures_memory ? ArenaMemory::Fill::kPattern : ArenaMemory::Fill::kZero;
  std::vector<ReplicaMemory> memories;
  for (std::size_t replica = 0; replica < program.replicas; ++replica) memories.emplace_back(program, fill);
  return memories;
}

// Per device its group of the thread plan; 0 for devices without tasks.
std::vector<std::size_t> crew_of_device(const ThreadPlan& threads, std::size_t num_devices) {
  std::vector<std::size_t> crews(num_devices);
  for (std::size_t group = 0; group < threads.devices.size(); ++group) {
    for (std::size_t device : threads.devices[group]) crews[device] = group;
  }
  return crews;
}

// Of each replica. Devices beyond them only move values, on behalf of those that compute.
std::size_t num_ipus(const Program& program) {
  std::size_t ipus = 1;
  for (std::size_t device = 0; device < program.devices.size(); ++device) {
    if (computes(program, device) && !only_brings(program, device)) ipus = device + 1;
  }
  return ipus;
}

// Replica by replica. What is moved on behalf of a replica is memory of its first IPU.
std::vector<RegisteredIpu> registered_ipus(const Program& program) {
  const std::size_t per_replica = num_ipus(program);
  std::vector<RegisteredIpu> ipus(program.replicas * per_replica);
  for (std::size_t replica = 0; replica < program.replicas; ++replica) {
    for (std::size_t device = 0; device < program.devices.size(); ++device) {
      RegisteredIpu& ipu = ipus[replica * per_replica + (device < per_replica ? device : 0)];
      ipu.memory += planned_bytes(program, device);
      ipu.host_memory += planned_host_bytes(program, device);
    }
  }
  return ipus;
}

void check(const Program& program) {
  if (program.replicas < 1) throw InternalError("a program for no replicas");
  if (!program.training && !program.update.empty()) throw InternalError("a program for inference has update tasks");
  for (const Task& task : program.step) {
    for (const InputCopy& copy : task.inputs) {
      if (copy.input < program.inputs.size()) continue;
      throw InternalError("task \"{}\" reads input {} of {}", task.name, copy.input, program.inputs.size());
    }
    for (const OutputCopy& copy : task.outputs) {
      if (copy.output < program.outputs.size()) continue;
      throw InternalError("task \"{}\" gives output {} of {}", task.name, copy.output, program.outputs.size());
    }
  }
  for (const VariableOutput& entry : program.variable_outputs) {
    if (entry.output < program.outputs.size() && entry.variable < program.variables.size() &&
        !program.variables[entry.variable].sharded)
      continue;
    throw InternalError("output {} of {} cannot be variable {} of {}", entry.output, program.outputs.size(),
                        entry.variable, program.variables.size());
  }
  for (const Task& task : program.update) {
    if (task.inputs.empty() && task.outputs.empty()) continue;
    throw InternalError("update task \"{}\" has inputs or outputs; only micro-batches have any", task.name);
  }
}

}  // namespace

struct Executor::State {
  std::shared_ptr<const Program> program;
  ExecutorOptions options;
  std::vector<ReplicaMemory> memories;         // per replica
  std::vector<std::vector<OutputSink>> sinks;  // per replica and output
  Registration registration;
  VariableStore variables;
  std::uint64_t seed = 0, step = 0;
  const CpuMask host_cpus = CpuMask::of_this_thread();
  const UsableCpus cpus;
  const ThreadPlan threads;
  const std::vector<std::size_t> crew_of_device;  // by group of the thread plan
  std::map<std::int64_t, TaskOrder> step_orders;  // by number of micro-batches
  TaskOrder update_order;
  std::vector<Reduction> reductions;
  std::unique_ptr<RunControl> control;  // nullptr: one crew, on the caller's thread
  std::vector<std::unique_ptr<ThreadTeam>> teams;
  std::vector<std::unique_ptr<Worker>> workers;  // by replica and device
  std::vector<Crew> crews;
  OverflowWatch watch;
  CallQueue calls;
  std::unique_ptr<WorkerPool> pool;  // last: its threads use all of the above
  bool is_packed = false;            // operands that stay, as the variables are now
  double total_time = 0;
  bool has_finished_run = false;  // so that its stamps are complete
  pid_t process = getpid();       // that has the threads

  State(std::shared_ptr<const Program> loaded, ExecutorOptions chosen)
      : program((check(*loaded), std::move(loaded))), options(chosen), memories(allocate(*program, options)),
        registration(program->name, options.device, registered_ipus(*program)), variables(*program, memories),
        cpus(usable_cpus(options.num_threads)),
        threads(options.thread_per_device ? thread_per_device(*program) : plan_threads(*program, cpus.cpus.size())),
        crew_of_device(aspen::crew_of_device(threads, program->devices.size())),
        update_order(order_tasks(program->update, crew_of_device, 1)), reductions(plan_reductions(*program, memories)),
        watch(*program) {
    sinks.resize(program->replicas);
    for (std::size_t replica = 0; replica < program->replicas; ++replica) {
      for (const auto& output : program->outputs) sinks[replica].emplace_back(output.type, replica, program->replicas);
    }
    if (threads.num_crews() > 1) {
      control = std::make_unique<RunControl>(*program, threads.num_computing * threads.replicas.size(), reductions);
    }
    make_crews();
    start_clocks();
    start_threads();
    reserve();
    if (options.recorder) record_workers();
  }

  void make_crews() {
    for (const auto& replicas : threads.replicas) {
      for (std::size_t group = 0; group < threads.devices.size(); ++group) {
        std::vector<std::vector<Worker*>> members;
        for (std::size_t replica : replicas) {
          auto& of_replica = members.emplace_back();
          for (std::size_t device : threads.devices[group]) {
            workers.push_back(
                std::make_unique<Worker>(*program, memories, threads, replica, device, sinks[replica], control.get()));
            of_replica.push_back(workers.back().get());
          }
        }
        crews.emplace_back(*program, group, std::move(members), control.get(), reductions);
      }
    }
    std::sort(workers.begin(), workers.end(), [](const auto& a, const auto& b) {
      return std::pair(a->replica(), a->device()) < std::pair(b->replica(), b->device());
    });
  }

  void record_workers() {
    std::vector<RecordedWorker> recorded;
    for (const auto& worker : workers) {
      const auto crew = std::find_if(crews.begin(), crews.end(), [&](const Crew& one) { return one.has(*worker); });
      recorded.push_back({.replica = worker->replica(),
                          .device = worker->device(),
                          .crew = static_cast<std::size_t>(crew - crews.begin()),
                          .num_threads = worker->num_threads()});
    }
    options.recorder->prepare(*program, recorded);
    for (std::size_t i = 0; i < workers.size(); ++i) workers[i]->set_record(&options.recorder->record(i));
  }

  void start_clocks() {
    const std::size_t per_replica = num_ipus(*program);
    for (const auto& worker : workers) {
      if (worker->device() >= per_replica) continue;
      worker->set_clock(BusyClock(registration.busy(worker->replica() * per_replica + worker->device())));
    }
  }

  // Shares out the cpus: to the caller's thread and helpers, or to the crews that compute. Those that only move values
  // run wherever there is room.
  void start_threads() {
    if (crews.empty()) return;
    if (!control) {
      crews.front().set_thread({.team = add_team_around_caller()});
      return;
    }
    auto shares = share_cpus(cpus.cpus, threads.num_working * threads.replicas.size());
    std::vector<int> pins(crews.size(), -1);
    std::size_t next = 0;
    for (std::size_t i = 0; i < crews.size(); ++i) {
      if (shares.empty() || i % threads.devices.size() >= threads.num_working) continue;
      const std::vector<int>& share = shares[next++];
      WorkerThread thread{.patience = kPatience};
      if (cpus.are_all) {
        pins[i] = share.front();
        thread.host_cpus = &host_cpus;
        thread.team = add_team(share.size(), {share.begin() + 1, share.end()});
      } else {
        thread.team = add_team(share.size());
      }
      crews[i].set_thread(thread);
    }
    pool = std::make_unique<WorkerPool>(pins);
  }

  // Of two threads or more; nullptr: one thread needs no team.
  ThreadTeam* add_team(std::size_t num_threads, std::vector<int> helper_cpus = {}) {
    if (num_threads == 1) return nullptr;
    teams.push_back(make_thread_team(num_threads, std::move(helper_cpus)));
    return teams.back().get();
  }

  ThreadTeam* add_team_around_caller() {
    if (!cpus.are_all || cpus.cpus.size() == 1) return add_team(cpus.cpus.size());
    teams.push_back(make_team_around_caller(cpus.cpus));
    return teams.back().get();
  }

  // Lets kernels make what they need before anything runs.
  void reserve() const {
    std::size_t num_threads = std::max(crews.size(), cpus.cpus.size());
    for (const auto* tasks : {&program->step, &program->update}) {
      for (const Task& task : *tasks) {
        for (const Instruction& instruction : task.instructions) instruction.kernel->reserve(num_threads);
      }
    }
  }

  void check_request(const RunRequest& request) const {
    if (request.device_iterations < 1) {
      throw UserError("a run needs at least one device iteration, not {}.", request.device_iterations);
    }
    if (request.gradient_accumulation != program->gradient_accumulation) {
      throw UserError("the program was compiled for a gradient accumulation of {}; the run asks for {}.",
                      program->gradient_accumulation, request.gradient_accumulation);
    }
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 1;
    if (request.device_iterations > kMost / request.gradient_accumulation) {
      throw UserError("a run takes at most {} micro-batches, not {} x {}.", kMost, request.device_iterations,
                      request.gradient_accumulation);
    }
    if (request.inputs.size() != program->inputs.size() || request.outputs.size() != program->outputs.size()) {
      throw InternalError("the program has {} inputs and {} outputs; the run passes {} and {}", program->inputs.size(),
                          program->outputs.size(), request.inputs.size(), request.outputs.size());
    }
  }

  const TaskOrder& step_order(std::int64_t micro_batches) {
    auto found = step_orders.find(micro_batches);
    if (found == step_orders.end()) {
      TaskOrder order = order_tasks(program->step, crew_of_device, micro_batches);
      found = step_orders.emplace(micro_batches, std::move(order)).first;
    }
    return found->second;
  }

  RunPlan plan(const RunRequest& request) {
    RunPlan plan{.request = &request, .update_order = &update_order, .seed = seed, .first_step = step, .watch = &watch};
    // A weight update empties the pipeline; without one it stays full over all iterations.
    plan.cycles = program->training ? request.device_iterations : 1;
    plan.rounds = request.device_iterations * request.gradient_accumulation / plan.cycles;
    plan.step_order = &step_order(plan.rounds);
    plan.is_recorded = options.recorder != nullptr;
    return plan;
  }

  void ask_to_stop(const RunRequest& request) {
    if (control->steps_stopped()) return;
    try {
      if (request.should_stop()) throw Interrupted();
    } catch (...) {
      control->stop_steps(std::current_exception());
    }
  }

  bool is_forked() const { return getpid() != process; }

  void run_workers(const RunPlan& plan) {
    CallQueue::Work work(calls);
    if (!std::exchange(is_packed, true)) {
      for (const auto& worker : workers) worker->pack();
    }
    if (!control) {
      for (Crew& crew : crews) crew.run(plan);
      return;
    }
    if (is_forked()) {
      throw UserError(
          "a program on several devices runs in the process that loaded it; this is a fork of that process, which has "
          "none of its threads. Load the program after the fork.");
    }
    control->reset();
    std::function<void()> poll;
    if (plan.request->should_stop) poll = [&] { ask_to_stop(*plan.request); };
    auto run_crew = [&](std::size_t i) {
      CallQueue::Work crew_work(calls);
      crews[i].run_with_others(plan);
    };
    pool->run(std::ref(run_crew), poll);
    if (auto error = control->error()) std::rethrow_exception(error);
  }

  std::uint64_t num_finished(const RunPlan& plan) const {
    std::int64_t finished = plan.cycles * plan.rounds;
    for (const auto& worker : workers) finished = std::min(finished, worker->num_finished_rounds());
    return static_cast<std::uint64_t>(finished);
  }

  // With several crews one that is in an update when another one fails in a step finishes it.
  bool update_failed() const {
    return control ? control->update_failed() : !crews.empty() && crews.front().is_updating();
  }

  void run(const RunRequest& request) {
    CallQueue::Turn turn(calls, request.should_stop);
    check_request(request);
    has_finished_run = false;
    for (auto& of_replica : sinks) {
      for (std::size_t i = 0; i < of_replica.size(); ++i) {
        of_replica[i].begin(request.outputs[i], program->outputs[i].name, request.device_iterations,
                            request.gradient_accumulation, program->has_transfers);
      }
    }
    RunPlan plan = this->plan(request);
    auto start = std::chrono::steady_clock::now();
    if (options.recorder) options.recorder->begin_call(start, plan.cycles * plan.rounds);
    auto finish = [&](bool is_finished) {
      const auto end = std::chrono::steady_clock::now();
      total_time = std::chrono::duration<double>(end - start).count();
      step += num_finished(plan);
      if (options.recorder) options.recorder->end_call(end, is_finished);
    };
    try {
      run_workers(plan);
    } catch (...) {
      finish(false);
      for (const auto& worker : workers) worker->rest();
      watch.finish_run(plan.cycles);
      variables.reset_accumulators();
      if (update_failed()) variables.reconcile();
      throw;
    }
    finish(true);
    watch.finish_run(plan.cycles);
    for (auto& of_replica : sinks) {
      for (auto& sink : of_replica) sink.finish();
    }
    has_finished_run = true;
    log_time(request);
  }

  void log_time(const RunRequest& request) const {
    if (!log::is_enabled(log::Level::kDebug)) return;
    log::debug("[run] a step took {:.3f} ms, {:.3f} ms were guessed from shapes",
               1e3 * total_time / static_cast<double>(request.device_iterations),
               1e-6 * guessed_nanoseconds_of_step(*program, request.gradient_accumulation));
  }

  // A device that only moves data does not count; one without transfers computes, or waits for others, all the time.
  double computing_time() const {
    std::optional<double> least;
    for (const auto& worker : workers) {
      if (worker->replica() != 0 || !worker->computes() || only_brings(*program, worker->device())) continue;
      least = std::min(least.value_or(worker->transfer_time()), worker->transfer_time());
    }
    return std::max(0.0, total_time - least.value_or(0.0));
  }

  TransferTimes transfers() const {
    TransferTimes times;
    if (!has_finished_run) return times;
    times.has_run = true;
    times.inputs.resize(program->inputs.size());
    for (const auto& worker : workers) {
      worker->for_each_arrival([&](const Worker::Arrival& arrival) {
        merge(arrival.stamps, worker->replica(), times.inputs[arrival.input]);
      });
    }
    times.outputs.resize(program->outputs.size());
    for (std::size_t replica = 0; replica < sinks.size(); ++replica) {
      for (std::size_t i = 0; i < sinks[replica].size(); ++i) {
        merge(sinks[replica][i].stamps(), replica, times.outputs[i]);
      }
    }
    times.computing = computing_time();
    return times;
  }

  // An input that several devices receive is under way from the first request to the last arrival.
  void merge(const TransferStamps& stamps, std::size_t replica, TransferTimes::Tensor& tensor) const {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    tensor.begin.resize(stamps.spans().size() * program->replicas, kNone);
    tensor.end.resize(tensor.begin.size(), -kNone);
    auto seconds = [](TransferStamps::Clock::time_point time) {
      return std::chrono::duration<double>(time.time_since_epoch()).count();
    };
    for (std::size_t i = 0; i < stamps.spans().size(); ++i) {
      double &begin = tensor.begin[i * program->replicas + replica], &end = tensor.end[i * program->replicas + replica];
      begin = std::min(begin, seconds(stamps.spans()[i].begin));
      end = std::max(end, seconds(stamps.spans()[i].end));
    }
  }
};

Executor::Executor(std::shared_ptr<const Program> program, ExecutorOptions options)
    : state_(std::make_unique<State>(std::move(program), options)) {}

// A fork has none of the threads and must not wait for them: what was theirs stays until the process ends.
Executor::~Executor() {
  if (state_->is_forked()) static_cast<void>(state_.release());
}

const Program& Executor::program() const { return *state_->program; }

std::size_t Executor::host_bytes(std::string_view name) const { return state_->variables.host_bytes(name); }

void Executor::write_variable(std::string_view name, std::span<const std::byte> bytes) {
  CallQueue::Turn turn(state_->calls);
  state_->variables.write(name, bytes);
  state_->is_packed = false;
}

void Executor::read_variable(std::string_view name, std::span<std::byte> bytes) const {
  CallQueue::Turn turn(state_->calls);
  state_->variables.read(name, bytes);
}

void Executor::write_replicas(std::string_view name, std::span<const std::byte> bytes) {
  CallQueue::Turn turn(state_->calls);
  state_->variables.write_replicas(name, bytes);
  state_->is_packed = false;
}

void Executor::read_replicas(std::string_view name, std::span<std::byte> bytes) const {
  CallQueue::Turn turn(state_->calls);
  state_->variables.read_replicas(name, bytes);
}

void Executor::set_random_state(std::uint64_t seed, std::uint64_t step) {
  CallQueue::Turn turn(state_->calls);
  state_->seed = seed;
  state_->step = step;
}

std::uint64_t Executor::seed() const {
  CallQueue::Turn turn(state_->calls);
  return state_->seed;
}

std::uint64_t Executor::step() const {
  CallQueue::Turn turn(state_->calls);
  return state_->step;
}

void Executor::run(const RunRequest& request) { state_->run(request); }

std::vector<DeviceTime> Executor::times() const {
  CallQueue::Turn turn(state_->calls);
  std::vector<DeviceTime> times;
  for (const auto& worker : state_->workers) times.push_back(worker->time(state_->total_time));
  return times;
}

TransferTimes Executor::transfers() const {
  CallQueue::Turn turn(state_->calls);
  return state_->transfers();
}

std::vector<DeviceMemory> Executor::memory() const {
  CallQueue::Turn turn(state_->calls);
  const Program& program = *state_->program;
  std::vector<DeviceMemory> result;
  for (std::size_t replica = 0; replica < program.replicas; ++replica) {
    for (std::size_t device = 0; device < program.devices.size(); ++device) {
      DeviceMemory entry{.replica = replica,
                         .device = device,
                         .planned = planned_bytes(program, device),
                         .planned_host = planned_host_bytes(program, device),
                         .parts = program.devices[device],
                         .slot_bytes = planned_slot_bytes(program, device),
                         .host_slot_bytes = planned_host_slot_bytes(program, device)};
      if (state_->options.measures_memory) {
        entry.measured = state_->memories[replica].touched_bytes(device);
        entry.measured_host = state_->memories[replica].touched_host_bytes(device);
      }
      result.push_back(entry);
    }
  }
  return result;
}

}  // namespace aspen
