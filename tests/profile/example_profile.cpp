#include "tests/profile/example_profile.h"

#include <algorithm>
#include <random>

#include "tests/profile/example_program.h"

namespace aspen::testing {
namespace {

using profile::Block;
using profile::BlockKind;
using profile::Op;
using profile::Pass;
using profile::Profile;
using profile::Section;
using profile::Task;

constexpr double kFlops = 4e10, kBytes = 1e10;  // per second and thread
constexpr std::int64_t kTransfer = 20'000, kExchange = 400'000, kHostOverhead = 150'000;

// Runs the tasks of all calls as crews would: what is ready first, of the oldest micro-batch, the latest in the list.
class Simulation {
 public:
  Simulation(const ExampleModel& model, Profile& profile) : model_(model), profile_(profile) {
    for (std::int64_t replica = 0; replica < model.replicas; ++replica) {
      for (std::int64_t device = 0; device < model.devices; ++device) {
        const std::int64_t worker = replica * model.devices + device;
        profile.workers.push_back({.replica = replica, .device = device, .crew = worker / model.devices_per_crew});
      }
    }
    free_.resize(profile.workers.size());
  }

  void run() {
    for (std::int64_t call = 0; call < model_.calls; ++call) {
      const std::int64_t rounds = model_.gradient_accumulation * model_.device_iterations;
      const auto waited = static_cast<std::int64_t>(static_cast<double>(last_) * model_.loading);
      is_traced_ = call >= model_.calls - model_.traced_calls;
      call_ = call;
      if (waited > 0 && call > 0) {
        profile_.trace.host.push_back({.track = "data loader", .name = "wait", .begin = now_, .duration = waited});
      }
      now_ += kHostOverhead + waited;
      const std::int64_t begin = now_;
      // Training empties the pipeline for every weight update.
      const std::int64_t fillings = model_.training ? model_.device_iterations : 1;
      for (std::int64_t i = 0; i < fillings; ++i) run_filling(i * rounds / fillings, rounds / fillings);
      last_ = now_ - begin;
      profile_.calls.push_back({.begin = begin,
                                .duration = last_,
                                .loading = call > 0 ? waited : 0,
                                .samples = rounds * model_.replicas * profile_.run.micro_batch_size});
    }
    std::stable_sort(profile_.trace.blocks.begin(), profile_.trace.blocks.end(),
                     [](const Block& a, const Block& b) { return a.begin < b.begin; });
  }

 private:
  struct Choice {
    std::int64_t task = -1, round = 0, begin = 0;
  };

  void run_filling(std::int64_t first_round, std::int64_t rounds) {
    std::fill(free_.begin(), free_.end(), now_);
    std::int64_t end = now_;
    for (std::int64_t replica = 0; replica < model_.replicas; ++replica)
      end = std::max(end, run_steps(replica, first_round, rounds));
    now_ = end;
    if (!model_.training) return;
    for (std::size_t i = 0; i < profile_.workers.size(); ++i) {
      const auto worker = static_cast<std::int64_t>(i);
      std::int64_t at = now_;
      if (model_.replicas > 1) at = add_block(worker, BlockKind::kExchange, -1, first_round, at, kExchange);
      const auto task = static_cast<std::int64_t>(profile_.tasks.size()) - model_.devices + profile_.workers[i].device;
      end = std::max(end, run_task(worker, task, first_round + rounds - 1, at));
    }
    now_ = end;
  }

  std::int64_t run_steps(std::int64_t replica, std::int64_t first_round, std::int64_t rounds) {
    const std::size_t num_tasks =
        profile_.tasks.size() - (model_.training ? static_cast<std::size_t>(model_.devices) : 0);
    std::vector<std::vector<std::int64_t>> ends(num_tasks);
    std::int64_t end = now_;
    for (;;) {
      Choice best;
      for (std::size_t task = 0; task < num_tasks; ++task) {
        const auto round = static_cast<std::int64_t>(ends[task].size());
        const std::int64_t ready = ready_time(ends, static_cast<std::int64_t>(task), round);
        if (round == rounds || ready < 0) continue;
        const std::int64_t begin = std::max(ready, free_of(worker_of(replica, static_cast<std::int64_t>(task))));
        if (best.task < 0 || begin < best.begin || (begin == best.begin && round <= best.round)) {
          best = {.task = static_cast<std::int64_t>(task), .round = round, .begin = begin};
        }
      }
      if (best.task < 0) return end;
      const std::int64_t worker = worker_of(replica, best.task);
      end = std::max(end, run_task(worker, best.task, first_round + best.round, best.begin));
      ends[static_cast<std::size_t>(best.task)].push_back(free_of(worker));
    }
  }

  // When all that a round of a task waits for is finished; -1: not known yet.
  std::int64_t ready_time(const std::vector<std::vector<std::int64_t>>& ends, std::int64_t task,
                          std::int64_t round) const {
    std::int64_t result = now_;
    for (const profile::Wait& wait : profile_.waits) {
      if (wait.task != task || round < wait.lag) continue;
      const auto& on = ends[static_cast<std::size_t>(wait.on)];
      const auto awaited = static_cast<std::size_t>(round - wait.lag);
      if (awaited >= on.size()) return -1;
      result = std::max(result, on[awaited]);
    }
    return result;
  }

  std::int64_t worker_of(std::int64_t replica, std::int64_t task) const {
    return replica * model_.devices + profile_.tasks[static_cast<std::size_t>(task)].device;
  }
  std::int64_t& free_of(std::int64_t worker) {
    return free_[static_cast<std::size_t>(profile_.workers[static_cast<std::size_t>(worker)].crew)];
  }

  // Gives the end.
  std::int64_t run_task(std::int64_t worker, std::int64_t task_row, std::int64_t round, std::int64_t begin) {
    const Task& task = profile_.tasks[static_cast<std::size_t>(task_row)];
    std::int64_t at = std::max(begin, free_of(worker));
    const bool is_step = task.section == Section::kStep;
    if (is_step && task_row == 0) at = add_block(worker, BlockKind::kInput, task_row, round, at, kTransfer);
    std::int64_t first = task.first_op;
    while (first < task.first_op + task.num_ops) {
      std::int64_t last = first;
      const Pass pass = profile_.ops[static_cast<std::size_t>(first)].pass;
      while (last < task.first_op + task.num_ops && profile_.ops[static_cast<std::size_t>(last)].pass == pass) ++last;
      at = run_ops(worker, task_row, round, at, first, last);
      first = last;
    }
    if (is_step && task.device == model_.devices - 1) {
      at = add_block(worker, BlockKind::kOutput, task_row, round, at, kTransfer / 2);
    }
    free_of(worker) = at;
    return at;
  }

  std::int64_t run_ops(std::int64_t worker, std::int64_t task, std::int64_t round, std::int64_t begin,
                       std::int64_t first, std::int64_t last) {
    const auto start = static_cast<std::int64_t>(profile_.trace.op_durations.size());
    std::int64_t end = begin;
    for (std::int64_t row = first; row < last; ++row) {
      Op& op = profile_.ops[static_cast<std::size_t>(row)];
      const std::int64_t duration = time_of(op);
      end += duration;
      op.shortest = op.calls == 0 ? duration : std::min(op.shortest, duration);
      op.longest = std::max(op.longest, duration);
      op.duration += duration;
      ++op.calls;
      if (is_traced_) profile_.trace.op_durations.push_back(duration);
    }
    const Pass pass = profile_.ops[static_cast<std::size_t>(first)].pass;
    const BlockKind kind = pass == Pass::kUpdate     ? BlockKind::kUpdate
                           : pass == Pass::kBackward ? BlockKind::kBackward
                                                     : BlockKind::kForward;
    add_block(worker, kind, task, round, begin, end - begin);
    if (is_traced_) {
      Block& block = profile_.trace.blocks.back();
      block.first_op = first;
      block.num_ops = last - first;
      block.op_durations = start;
    }
    return end;
  }

  std::int64_t add_block(std::int64_t worker, BlockKind kind, std::int64_t task, std::int64_t round, std::int64_t begin,
                         std::int64_t duration) {
    if (is_traced_) {
      profile_.trace.blocks.push_back({.worker = worker,
                                       .call = call_,
                                       .kind = kind,
                                       .task = task,
                                       .micro_batch = round,
                                       .begin = begin,
                                       .duration = duration});
    }
    return begin + duration;
  }

  std::int64_t time_of(const Op& op) {
    const double bytes = static_cast<double>(op.bytes_read + op.bytes_written);
    const double limit = std::max(op.flops / kFlops, bytes / kBytes) * 1e9;
    const double noise = 1 + 0.08 * static_cast<double>(random_() % 1000) / 1000;
    return static_cast<std::int64_t>((limit * 1.25 + 400) * noise * (op.calls_host ? 100 : 1));
  }

  const ExampleModel& model_;
  Profile& profile_;
  std::minstd_rand random_{1};      // NOLINT: the same profile every time
  std::vector<std::int64_t> free_;  // when each crew is
  std::int64_t now_ = 0, last_ = 0, call_ = 0;
  bool is_traced_ = false;
};

}  // namespace

Profile example_profile(const ExampleModel& model) {
  Profile profile;
  profile.run = {.model = model.name,
                 .aspen = "0.1.0",
                 .created = "2024-05-01T12:00:00Z",
                 .backend = "cpu, avx512, oneDNN 2.6.3",
                 .execution = model.devices > 1 ? "pipelined" : "single device",
                 .training = model.training,
                 .complete = model.complete,
                 .replicas = model.replicas,
                 .gradient_accumulation = model.gradient_accumulation,
                 .device_iterations = model.device_iterations,
                 .micro_batch_size = 4};
  profile.run.options = {{"Training.gradientAccumulation", std::to_string(model.gradient_accumulation)},
                         {"replicationFactor", std::to_string(model.replicas)}};
  profile.machine = {
      .processor = "Example 8-Core Processor", .num_cpus = 8, .thread = {5e10, 1.2e10}, .all = {4e11, 4e10}};
  profile.compilation = {
      {"capture", 310'000'000},        {"passes", 95'000'000},      {"passes/differentiate", 22'000'000},
      {"passes/schedule", 31'000'000}, {"memory plan", 18'000'000}, {"kernels", 240'000'000}};
  add_example_program(model, profile);
  add_example_memory(model, profile);
  Simulation(model, profile).run();
  return profile;
}

}  // namespace aspen::testing
