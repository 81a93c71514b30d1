#include "aspen/runtime/worker.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "aspen/base/error.h"
#include "aspen/runtime/float_check.h"

namespace aspen {
namespace {

// Whether another device waits for the task.
bool is_awaited(const std::vector<Task>& tasks, std::size_t task) {
  for (const Task& other : tasks) {
    if (other.device == tasks[task].device) continue;
    for (const Wait& wait : other.waits) {
      if (wait.task == task) return true;
    }
  }
  return false;
}

bool is_reduced(const ProgramVariable& variable) { return variable.reduced; }

}  // namespace

bool computes(const Program& program, std::size_t device) {
  auto works = [&](const Task& task) { return task.device == device && !task.instructions.empty(); };
  return std::any_of(program.step.begin(), program.step.end(), works) ||
         std::any_of(program.update.begin(), program.update.end(), works);
}

Worker::Worker(const Program& program, const std::vector<ReplicaMemory>& memories, std::size_t replica,
               std::size_t device, std::vector<OutputSink>& sinks, RunControl* control)
    : program_(program), replica_(replica), device_(device),
      input_group_(program.input_grouping.group_of(replica, program.replicas)),
      num_input_groups_(program.input_grouping.num_groups(program.replicas)), sinks_(sinks), control_(control) {
  computes_ = aspen::computes(program, device);
  step_ = bind(program.step, memories[replica], false);
  update_ = bind(program.update, memories[replica], true);
  bool any_reduced = std::any_of(program.variables.begin(), program.variables.end(), is_reduced);
  has_cycle_end_ = computes_ && (!program.update.empty() || any_reduced);
  needs_reduction_ = aspen::needs_reduction(program, device);
  meets_after_update_ = needs_meeting_after_update(program);
  reductions_ = plan_reductions(program, memories, replica, device);
  refresh_ = plan_refresh(program, memories, replica, device);
  if (!computes_ && (needs_reduction_ || !refresh_.empty())) {
    throw InternalError("device {} has variables to exchange but no instructions", device);
  }
  context_.replica = replica;
  context_.num_replicas = program.replicas;
}

Worker::Section Worker::bind(const std::vector<Task>& tasks, const ReplicaMemory& memory, bool is_update) {
  Section section;
  section.own_index.resize(tasks.size());
  auto counter = [&](std::size_t task) {
    return is_update ? &control_->update(replica_, task) : &control_->step(replica_, task);
  };
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (tasks[t].device != device_) continue;
    section.own_index[t] = section.tasks.size();
    OwnTask& own = section.tasks.emplace_back(OwnTask{.bound = BoundTask(tasks[t], memory)});
    if (control_ == nullptr) continue;
    for (const Wait& wait : tasks[t].waits) {
      // Waits within the device are met by its order.
      if (tasks[wait.task].device != device_) own.waits.push_back({.counter = counter(wait.task), .lag = wait.lag});
    }
    if (is_awaited(tasks, t)) own.progress = counter(t);
  }
  return section;
}

void Worker::run_with_others(const RunPlan& plan) noexcept {
  try {
    run(plan);
  } catch (const Stopped&) {
  } catch (...) {
    if (is_updating_) {
      control_->stop_everything(std::current_exception());
    } else {
      control_->stop_steps(std::current_exception());
    }
  }
}

void Worker::run(const RunPlan& plan) {
  plan_ = &plan;
  context_.seed = plan.seed;
  is_updating_ = false;
  exchange_ = {};
  for (Section* section : {&step_, &update_}) {
    for (OwnTask& task : section->tasks) {
      task.runs = 0;
      task.busy = {};
    }
  }
  last_asked_ = Clock::now();
  for (std::int64_t cycle = 0; cycle < plan.cycles; ++cycle) {
    for (const TaskRun& next : (*plan.step_order)[device_]) {
      run_step(step_[next.task], cycle * plan.rounds + next.round);
    }
    if (has_cycle_end_) finish_cycle(cycle);
  }
}

void Worker::wait(const OwnTask& task, std::int64_t round, const std::atomic<bool>& stopped) const {
  if (stopped.load(std::memory_order_relaxed)) throw Stopped();
  for (const CounterWait& wait : task.waits) {
    std::int64_t finished = round - wait.lag + 1;
    if (finished > 0) wait.counter->wait(finished, stopped, control_->patience());
  }
}

void Worker::run_step(OwnTask& task, std::int64_t micro_batch) {
  if (control_ != nullptr) wait(task, micro_batch, control_->steps_stopped());
  auto start = Clock::now();
  context_.step = plan_->first_step + static_cast<std::uint64_t>(micro_batch);
  context_.team = step_team_;
  task.bound.enter(micro_batch);
  copy_inputs(task.bound, micro_batch);
  run_instructions(task.bound, micro_batch);
  for (const BoundCopy& output : task.bound.outputs()) {
    sinks_[output.tensor].take(output.address.at(micro_batch), micro_batch);
  }
  auto end = Clock::now();
  task.busy += end - start;
  ++task.runs;
  if (task.progress != nullptr) task.progress->set(micro_batch + 1);
  if (control_ == nullptr) ask_to_stop(end);
}

void Worker::finish_cycle(std::int64_t cycle) {
  // All or none: nobody updates before everybody has come through the steps.
  if (control_ != nullptr) control_->meet_before_update();
  is_updating_ = true;
  if (needs_reduction_) reduce_over_replicas();
  for (const TaskRun& next : (*plan_->update_order)[device_]) run_update(update_[next.task], cycle);
  if (control_ != nullptr && meets_after_update_) refresh_variables();
  is_updating_ = false;
}

void Worker::run_update(OwnTask& task, std::int64_t cycle) {
  if (control_ != nullptr) wait(task, cycle, control_->updates_stopped());
  auto start = Clock::now();
  std::int64_t micro_batch = (cycle + 1) * plan_->rounds - 1;
  context_.step = plan_->first_step + static_cast<std::uint64_t>(micro_batch);
  context_.team = update_team_;
  task.bound.enter(cycle);
  run_instructions(task.bound, micro_batch);
  task.busy += Clock::now() - start;
  ++task.runs;
  if (task.progress != nullptr) task.progress->set(cycle + 1);
}

void Worker::reduce_over_replicas() {
  auto start = Clock::now();
  for (const Reduction& reduction : reductions_) aspen::run(reduction);
  exchange_ += Clock::now() - start;
  control_->meet_on_device(device_);
}

void Worker::refresh_variables() {
  control_->meet_after_update();
  auto start = Clock::now();
  aspen::run(refresh_);
  exchange_ += Clock::now() - start;
  control_->meet_after_update();
}

void Worker::copy_inputs(const BoundTask& task, std::int64_t micro_batch) const {
  auto index = static_cast<std::size_t>(micro_batch) * num_input_groups_ + input_group_;
  for (const BoundCopy& input : task.inputs()) {
    std::size_t bytes = program_.inputs[input.tensor].type.bytes();
    const auto* from = static_cast<const std::byte*>(plan_->request->inputs[input.tensor]) + index * bytes;
    if (bytes != 0) std::memcpy(input.address.at(micro_batch), from, bytes);
  }
}

void Worker::run_instructions(const BoundTask& task, std::int64_t micro_batch) const {
  const BoundInstruction* current = nullptr;
  try {
    for (const BoundInstruction& bound : task.instructions()) {
      current = &bound;
      KernelArgs args{
          .inputs = bound.inputs, .outputs = bound.outputs, .workspace = bound.workspace, .step = &context_};
      if (program_.checks_floats) {
        run_checked(bound, args);
      } else {
        bound.instruction->kernel->run(args);
      }
    }
  } catch (const std::exception&) {
    rethrow_with_context(describe(task, *current->instruction, micro_batch));
  }
}

void Worker::run_checked(const BoundInstruction& bound, const KernelArgs& args) const {
  bool is_checked = has_finite_inputs(bound);
  bound.instruction->kernel->run(args);
  if (is_checked) require_finite_outputs(bound);
}

std::string Worker::describe(const BoundTask& task, const Instruction& instruction, std::int64_t micro_batch) const {
  std::string text = "in op " + instruction.op;
  if (!instruction.location.empty()) text += ", captured at " + instruction.location;
  if (control_ == nullptr) return text + fmt::format(" of micro-batch {}", micro_batch);
  text += fmt::format(", on device {}", device_);
  text += is_updating_ ? fmt::format(", in the update after micro-batch {}", micro_batch)
                       : fmt::format(", stage {}, micro-batch {}", task.task().stage, micro_batch);
  if (program_.replicas > 1) text += fmt::format(", replica {}", replica_);
  return text;
}

void Worker::ask_to_stop(Clock::time_point now) {
  if (now - last_asked_ < kStopInterval || !plan_->request->should_stop) return;
  if (plan_->request->should_stop()) throw Interrupted();
  last_asked_ = Clock::now();
}

DeviceTime Worker::time(double total) const {
  auto seconds = [](Clock::duration duration) { return std::chrono::duration<double>(duration).count(); };
  DeviceTime result{.replica = replica_, .device = device_, .total = total};
  double busy = seconds(exchange_);
  for (const Section* section : {&step_, &update_}) {
    for (const OwnTask& task : section->tasks) {
      result.tasks.push_back({.task = task.bound.task().name, .runs = task.runs, .seconds = seconds(task.busy)});
      busy += seconds(task.busy);
    }
  }
  // Alone there is nobody to wait for.
  if (control_ != nullptr) result.waiting = std::max(0.0, total - busy);
  return result;
}

std::int64_t Worker::num_finished_rounds() const {
  std::int64_t finished = std::numeric_limits<std::int64_t>::max();
  for (const OwnTask& task : step_.tasks) finished = std::min(finished, task.runs);
  return finished;
}

}  // namespace aspen
