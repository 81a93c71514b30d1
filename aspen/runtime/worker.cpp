#include "aspen/runtime/worker.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "aspen/base/error.h"
#include "aspen/runtime/float_check.h"
#include "aspen/runtime/task_order.h"

namespace aspen {
namespace {

// The group a number is in.
std::size_t group_of(const ThreadPlan::Groups& groups, std::size_t number) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (std::find(groups[i].begin(), groups[i].end(), number) != groups[i].end()) return i;
  }
  throw InternalError("no thread has device or replica {}", number);
}

// Inputs that no task reads. The first task receives them all the same: they are a part of the call.
std::vector<std::size_t> unread_inputs(const Program& program) {
  std::vector<bool> is_read(program.inputs.size());
  for (const Task& task : program.step) {
    for (const InputCopy& copy : task.inputs) is_read[copy.input] = true;
  }
  std::vector<std::size_t> unread;
  for (std::size_t input = 0; input < is_read.size(); ++input) {
    if (!is_read[input]) unread.push_back(input);
  }
  return unread;
}

std::size_t first_backward(const Task& task) {
  const auto is_backward = [](const Instruction& instruction) { return instruction.is_backward; };
  const auto found = std::find_if(task.instructions.begin(), task.instructions.end(), is_backward);
  return static_cast<std::size_t>(found - task.instructions.begin());
}

double seconds(Worker::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Worker::Worker(const Program& program, const std::vector<ReplicaMemory>& memories, const ThreadPlan& threads,
               std::size_t replica, std::size_t device, std::vector<OutputSink>& sinks, RunControl* control)
    : program_(program), threads_(threads), replica_(replica), device_(device),
      input_group_(program.input_grouping.group_of(replica, program.replicas)),
      num_input_groups_(program.input_grouping.num_groups(program.replicas)), sinks_(sinks), control_(control) {
  computes_ = aspen::computes(program, device);
  is_alone_ = program.replicas == 1 && threads.num_crews() == 1 && threads.devices[0].size() == 1;
  step_ = bind(program.step, memories, false);
  update_ = bind(program.update, memories, true);
  for (const VariableOutput& entry : program.variable_outputs) {
    const BufferRef& home = program.variables[entry.variable].places[0];
    if (home.owner == device) given_variables_.push_back({entry.output, memories[replica].address(home)});
  }
  find_exchanges(memories);
  context_.replica = replica;
  context_.num_replicas = program.replicas;
}

// What a thread runs itself it runs in an order that meets the waits.
bool Worker::shares_thread(std::size_t replica, std::size_t device) const {
  return group_of(threads_.replicas, replica) == group_of(threads_.replicas, replica_) &&
         group_of(threads_.devices, device) == group_of(threads_.devices, device_);
}

Worker::Section Worker::bind(const std::vector<Task>& tasks, const std::vector<ReplicaMemory>& memories,
                             bool is_update) {
  Section section;
  section.own_index.resize(tasks.size());
  auto counter = [&](std::size_t task, std::size_t replica) {
    return is_update ? &control_->update(replica, task) : &control_->step(replica, task);
  };
  auto is_awaited = [&](std::size_t task) {
    if (is_update) return true;  // perhaps by a refresh
    return std::any_of(tasks.begin(), tasks.end(), [&](const Task& other) {
      auto is_for_task = [&](const Wait& wait) { return wait.task == task; };
      return !shares_thread(replica_, other.device) && std::any_of(other.waits.begin(), other.waits.end(), is_for_task);
    });
  };
  std::size_t turns_before = 0;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    std::size_t first_turn = turns_before;
    turns_before += static_cast<std::size_t>(
        std::count_if(tasks[t].instructions.begin(), tasks[t].instructions.end(), is_in_turns));
    if (tasks[t].device != device_) continue;
    section.own_index[t] = section.tasks.size();
    OwnTask& own = section.tasks.emplace_back(OwnTask{.bound = BoundTask(tasks[t], memories, replica_)});
    own.choice = choice_.add_task(tasks[t].instructions.size());
    own.first_total = std::exchange(num_instructions_, num_instructions_ + tasks[t].instructions.size());
    own.first_backward = first_backward(tasks[t]);
    for (const BoundCopy& input : own.bound.inputs()) own.arrivals.push_back({input.tensor, input.address, {}});
    if (t == 0 && !is_update && program_.has_transfers) {
      for (const std::size_t input : unread_inputs(program_)) own.arrivals.push_back({.input = input});
    }
    if (control_ == nullptr) continue;
    own.bound.number_turns(first_turn);
    for (const Wait& wait : tasks[t].waits) {
      for (std::size_t replica = 0; replica < program_.replicas; ++replica) {
        if (replica != replica_ && !wait.in_all_replicas) continue;
        if (shares_thread(replica, tasks[wait.task].device)) continue;
        own.waits.push_back({.counter = counter(wait.task, replica), .lag = wait.lag});
      }
    }
    if (is_awaited(t)) own.progress = counter(t, replica_);
  }
  return section;
}

void Worker::find_exchanges(const std::vector<ReplicaMemory>& memories) {
  refresh_ = plan_refresh(program_, memories, replica_, device_);
  if (!computes_ && !refresh_.empty()) {
    throw InternalError("device {} has variables to exchange but no instructions", device_);
  }
  if (control_ == nullptr) return;
  for (const auto& [replica, task] : updates_before_refresh(program_, replica_, device_)) {
    if (shares_thread(replica, program_.update[task].device)) continue;
    before_refresh_.push_back({.counter = &control_->update(replica, task)});
  }
  for (std::size_t device : refreshes_before_steps(program_, device_)) {
    if (!shares_thread(replica_, device)) before_steps_.push_back({.counter = &control_->refresh(replica_, device)});
  }
}

void Worker::pack() const {
  for (const OwnTask& task : step_.tasks) {
    for (const BoundInstruction& bound : task.bound.instructions()) {
      const Instruction& instruction = *bound.instruction;
      if (instruction.fills_packed) instruction.kernel->pack({.inputs = bound.inputs}, bound.packed);
    }
  }
}

void Worker::begin(const RunPlan& plan) {
  plan_ = &plan;
  context_.seed = plan.seed;
  exchange_ = transfers_ = {};
  for (Section* section : {&step_, &update_}) {
    for (OwnTask& task : section->tasks) {
      task.runs = 0;
      task.busy = {};
      for (Arrival& arrival : task.arrivals) arrival.stamps.begin(plan.cycles * plan.rounds);
    }
  }
}

void Worker::wait(const std::vector<CounterWait>& waits, std::int64_t round, const std::atomic<bool>& stopped) const {
  if (stopped.load(std::memory_order_relaxed)) throw Stopped();
  for (const CounterWait& wait : waits) {
    std::int64_t finished = round - wait.lag + 1;
    if (finished > 0) wait.counter->wait(finished, stopped, thread_.patience);
  }
}

void Worker::count(OwnTask& task, std::int64_t finished, Clock::time_point begin, Clock::time_point end) {
  clock_.end(end);
  task.busy += end - begin;
  ++task.runs;
  if (task.progress != nullptr) task.progress->set(finished);
}

template <bool kRecorded>
void Worker::run_step(std::size_t number, std::int64_t micro_batch, Clock::time_point& now) {
  OwnTask& task = step_[number];
  if (control_ != nullptr) {
    wait(task.waits, micro_batch, control_->steps_stopped());
    now = Clock::now();
  }
  const auto begin = now;
  clock_.begin(begin);
  context_.step = plan_->first_step + static_cast<std::uint64_t>(micro_batch);
  task.bound.enter(micro_batch);
  task.bound.enter_call([&](std::size_t input) { return input_at(input, micro_batch); },
                        [&](std::size_t output) { return sinks_[output].place(micro_batch); });
  copy_inputs(task, micro_batch, now);
  const auto received = now;
  if constexpr (kRecorded) record_->begin_instructions(now, task.first_total, task.first_backward);
  run_instructions<kRecorded>(task, number, micro_batch, false);
  now = Clock::now();
  const auto computed = now;
  copy_outputs(task.bound, micro_batch, now);
  count(task, micro_batch + 1, begin, now);
  if constexpr (kRecorded) {
    record_->end_task({.kind = WorkerEvent::Kind::kStep,
                       .task = static_cast<std::int32_t>(number),
                       .micro_batch = micro_batch,
                       .begin = begin,
                       .received = received,
                       .computed = computed,
                       .end = now});
  }
}

template void Worker::run_step<false>(std::size_t, std::int64_t, Clock::time_point&);
template void Worker::run_step<true>(std::size_t, std::int64_t, Clock::time_point&);

template <bool kRecorded>
void Worker::run_update(std::size_t number, std::int64_t cycle, Clock::time_point& now) {
  OwnTask& task = update_[number];
  if (control_ != nullptr) {
    wait(task.waits, cycle, control_->updates_stopped());
    now = Clock::now();
  }
  const auto begin = now;
  clock_.begin(begin);
  std::int64_t micro_batch = (cycle + 1) * plan_->rounds - 1;
  context_.step = plan_->first_step + static_cast<std::uint64_t>(micro_batch);
  task.bound.enter(cycle);
  if constexpr (kRecorded) record_->begin_instructions(now, task.first_total, task.first_backward);
  run_instructions<kRecorded>(task, number, micro_batch, true);
  now = Clock::now();
  count(task, cycle + 1, begin, now);
  if constexpr (kRecorded) {
    record_->end_task({.kind = WorkerEvent::Kind::kUpdate,
                       .task = static_cast<std::int32_t>(number),
                       .micro_batch = micro_batch,
                       .begin = begin,
                       .received = begin,
                       .computed = now,
                       .end = now});
  }
}

template void Worker::run_update<false>(std::size_t, std::int64_t, Clock::time_point&);
template void Worker::run_update<true>(std::size_t, std::int64_t, Clock::time_point&);

void Worker::give_variables(std::int64_t first, std::int64_t end) {
  if (given_variables_.empty()) return;
  auto now = Clock::now();
  const auto begin = now;
  for (std::int64_t micro_batch = first; micro_batch < end; ++micro_batch) {
    for (const BoundCopy& variable : given_variables_) {
      OutputSink& sink = sinks_[variable.tensor];
      if (sink.wants(micro_batch)) now = sink.take(variable.address.base, micro_batch, now);
    }
  }
  transfers_ += now - begin;
  if (record() != nullptr && now != begin) record_->add(WorkerEvent::Kind::kGiven, first, begin, now);
}

void Worker::refresh(std::int64_t cycle) {
  if (control_ != nullptr) wait(before_refresh_, cycle, control_->updates_stopped());
  if (!refresh_.empty()) {
    auto start = Clock::now();
    aspen::run(refresh_);
    const auto end = Clock::now();
    add_exchange(end - start);
    if (record() != nullptr) record_->add(WorkerEvent::Kind::kExchange, (cycle + 1) * plan_->rounds - 1, start, end);
  }
  if (control_ != nullptr) control_->refresh(replica_, device_).set(cycle + 1);
}

void Worker::await_refreshes(std::int64_t cycle) const {
  if (control_ != nullptr) wait(before_steps_, cycle, control_->updates_stopped());
}

const std::byte* Worker::input_at(std::size_t input, std::int64_t micro_batch) const {
  const auto index = static_cast<std::size_t>(micro_batch) * num_input_groups_ + input_group_;
  return static_cast<const std::byte*>(plan_->request->inputs[input]) + index * program_.inputs[input].type.bytes();
}

const std::byte* Worker::source_of(const BoundCopy& output, std::int64_t micro_batch) const {
  switch (output.arena) {
    case Arena::kInputs: return input_at(output.owner, micro_batch);
    case Arena::kOutputs: return sinks_[output.owner].place(micro_batch);
    default: return output.address.at(micro_batch);
  }
}

// One stamp ends a transfer and begins the next. What is read where it lies arrives in no time.
void Worker::copy_inputs(OwnTask& task, std::int64_t micro_batch, Clock::time_point& now) {
  const auto begin = now;
  for (Arrival& arrival : task.arrivals) {
    const auto requested = now;
    std::size_t bytes = program_.inputs[arrival.input].type.bytes();
    if (bytes != 0 && arrival.address.base != nullptr) {
      std::memcpy(arrival.address.at(micro_batch), input_at(arrival.input, micro_batch), bytes);
      now = Clock::now();
    }
    arrival.stamps.set(micro_batch, requested, now);
  }
  transfers_ += now - begin;
}

void Worker::copy_outputs(const BoundTask& task, std::int64_t micro_batch, Clock::time_point& now) {
  const auto ready = now;
  for (const BoundCopy& output : task.outputs()) {
    OutputSink& sink = sinks_[output.tensor];
    if (sink.wants(micro_batch)) now = sink.take(source_of(output, micro_batch), micro_batch, ready);
  }
  transfers_ += now - ready;
}

template <bool kRecorded>
void Worker::run_instructions(const OwnTask& own, std::size_t number, std::int64_t micro_batch, bool is_update) {
  const BoundTask& task = own.bound;
  const BoundInstruction* current = nullptr;
  StepContext alone = context_;
  alone.team = nullptr;
  const bool has_choice = context_.team != nullptr;
  if (has_choice) choice_.begin_round(Clock::now());
  const bool is_trial = has_choice && choice_.is_trial();
  const bool is_watched = plan_->watch != nullptr && plan_->watch->is_on();
  if (is_watched) OverflowWatch::forget_flags();
  try {
    for (const BoundInstruction& bound : task.instructions()) {
      current = &bound;
      const auto place = static_cast<std::size_t>(&bound - task.instructions().data());
      const StepContext& step = !has_choice || choice_.uses_team(own.choice, place) ? context_ : alone;
      KernelArgs args{.inputs = bound.inputs,
                      .outputs = bound.outputs,
                      .workspace = bound.workspace,
                      .step = &step,
                      .packed = bound.packed};
      if (bound.turn != 0) {
        run_in_turn(bound, args, micro_batch);
      } else if (program_.checks_floats) {
        run_checked(bound, args);
      } else if (is_watched) {
        run_watched(bound, args,
                    {.cycle = micro_batch / plan_->rounds,
                     .is_update = is_update,
                     .micro_batch = micro_batch,
                     .task = number,
                     .instruction = place,
                     .replica = replica_});
      } else if (bound.calls_host) {
        run_on_host(bound, args);
      } else {
        bound.instruction->kernel->run(args);
      }
      if constexpr (kRecorded) record_->end_instruction(place);
      if (is_trial) choice_.end_instruction(own.choice, place, Clock::now());
    }
  } catch (const std::exception&) {
    rethrow_with_context(describe(task, *current->instruction, micro_batch, is_update));
  }
  if (is_trial) choice_.end_round(own.choice, Clock::now());
}

void Worker::run_watched(const BoundInstruction& bound, const KernelArgs& args,
                         const OverflowWatch::Place& place) const {
  if (bound.instruction->updates_weight) plan_->watch->before_update(bound, place);
  run_on_host(bound, args);
  plan_->watch->after(bound, place);
}

// The first replica of a micro-batch follows the last one of the micro-batch before it.
void Worker::run_in_turn(const BoundInstruction& bound, const KernelArgs& args, std::int64_t micro_batch) const {
  ProgressCounter& turns = control_->turns(bound.turn - 1);
  const std::int64_t before =
      micro_batch * static_cast<std::int64_t>(program_.replicas) + static_cast<std::int64_t>(replica_);
  turns.wait(before, control_->steps_stopped(), thread_.patience);
  bound.instruction->kernel->run(args);
  turns.set(before + 1);
}

void Worker::run_checked(const BoundInstruction& bound, const KernelArgs& args) const {
  const AllowedFloats allowed = allowed_floats(bound);
  run_on_host(bound, args);
  check_outputs(bound, allowed);
}

// Threads that the host starts, those of OpenMP above all, live on; they must not stay on the cpu of this worker.
void Worker::run_on_host(const BoundInstruction& bound, const KernelArgs& args) const {
  std::optional<CpuMask::Scope> scope;
  if (bound.calls_host && thread_.host_cpus != nullptr) scope.emplace(*thread_.host_cpus);
  bound.instruction->kernel->run(args);
}

std::string Worker::describe(const BoundTask& task, const Instruction& instruction, std::int64_t micro_batch,
                             bool is_update) const {
  std::string text = "in op " + instruction.request.op;
  if (!instruction.location.empty()) text += ", captured at " + instruction.location;
  if (is_alone_) return text + fmt::format(" of micro-batch {}", micro_batch);
  text += fmt::format(", on device {}", device_);
  text += is_update ? fmt::format(", in the update after micro-batch {}", micro_batch)
                    : fmt::format(", stage {}, micro-batch {}", task.task().stage, micro_batch);
  if (program_.replicas > 1) text += fmt::format(", replica {}", replica_);
  return text;
}

DeviceTime Worker::time(double total) const {
  DeviceTime result{.replica = replica_, .device = device_, .total = total};
  double busy = seconds(exchange_);
  for (const Section* section : {&step_, &update_}) {
    for (const OwnTask& task : section->tasks) {
      result.tasks.push_back({.task = task.bound.task().name, .runs = task.runs, .seconds = seconds(task.busy)});
      busy += seconds(task.busy);
    }
  }
  // Alone there is nobody to wait for.
  if (!is_alone_) result.waiting = std::max(0.0, total - busy);
  return result;
}

double Worker::transfer_time() const { return seconds(transfers_); }

std::int64_t Worker::num_finished_rounds() const {
  std::int64_t finished = std::numeric_limits<std::int64_t>::max();
  for (const OwnTask& task : step_.tasks) finished = std::min(finished, task.runs);
  return finished;
}

}  // namespace aspen
