#include "aspen/profile/analyse.h"

#include <algorithm>
#include <map>

namespace aspen::profile {
namespace {

std::int64_t median(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// The first call warms up caches and threads: with others beside it, it is left out.
void analyse_calls(const Profile& profile, Analysis& result) {
  const std::vector<Call>& calls = profile.calls;
  if (calls.empty()) return;
  const std::size_t first = calls.size() > 1 ? 1 : 0;
  const std::int64_t begin = first > 0 ? calls[0].begin + calls[0].duration : calls[0].begin;
  const std::int64_t end = calls.back().begin + calls.back().duration;
  std::vector<std::int64_t> durations;
  double running = 0, loading = 0, samples = 0;
  for (std::size_t i = first; i < calls.size(); ++i) {
    durations.push_back(calls[i].duration);
    running += static_cast<double>(calls[i].duration);
    samples += static_cast<double>(calls[i].samples);
    if (i > 0) loading += static_cast<double>(calls[i].loading);
  }
  const auto total = static_cast<double>(end - begin);
  result.calls = static_cast<std::int64_t>(durations.size());
  result.call_duration = median(std::move(durations));
  result.iteration = result.call_duration / std::max<std::int64_t>(profile.run.device_iterations, 1);
  result.samples_per_second = ratio(samples, total * 1e-9);
  result.host_share = std::clamp(ratio(total - running, total), 0.0, 1.0);
  result.loading_share = std::clamp(ratio(loading, total), 0.0, result.host_share);
}

void analyse_rate(const Profile& profile, Analysis& result) {
  for (const Op& op : profile.ops) result.flops_per_iteration += op.flops * runs_per_iteration(profile, op);
  result.flops_per_second = ratio(result.flops_per_iteration, static_cast<double>(result.iteration) * 1e-9);
  result.share_of_peak = ratio(result.flops_per_second, profile.machine.all.flops_per_second);
}

}  // namespace

double runs_per_iteration(const Profile& profile, const Op& op) {
  const bool is_update = profile.tasks[static_cast<std::size_t>(op.task)].section == Section::kUpdate;
  return static_cast<double>(profile.run.replicas * (is_update ? 1 : profile.run.gradient_accumulation));
}

std::vector<std::int64_t> limits_of_ops(const Profile& profile) {
  std::map<std::int64_t, double> threads;  // of devices
  for (const Worker& worker : profile.workers) threads[worker.device] = static_cast<double>(worker.num_threads);
  const auto peak = [&](std::int64_t device, double of_thread, double of_all) {
    return std::min(std::max(threads[device], 1.0) * of_thread, of_all > 0 ? of_all : of_thread);
  };
  const Machine& machine = profile.machine;
  std::vector<std::int64_t> result;
  for (const Op& op : profile.ops) {
    const std::int64_t device = profile.tasks[static_cast<std::size_t>(op.task)].device;
    const double flops = peak(device, machine.thread.flops_per_second, machine.all.flops_per_second);
    const double bytes = peak(device, machine.thread.bytes_per_second, machine.all.bytes_per_second);
    const double moved = static_cast<double>(op.bytes_read + op.bytes_written);
    result.push_back(static_cast<std::int64_t>(1e9 * std::max(ratio(op.flops, flops), ratio(moved, bytes))));
  }
  return result;
}

std::vector<StageTime> times_of_stages(const Profile& profile) {
  struct Sum {
    std::int64_t duration = 0, runs = 0;
  };
  std::map<std::pair<std::int64_t, BlockKind>, Sum> of_tasks;
  for (const Block& block : profile.trace.blocks) {
    if (block.task < 0) continue;
    Sum& sum = of_tasks[{block.task, block.kind}];
    sum.duration += block.duration;
    ++sum.runs;
  }
  std::map<std::pair<std::int64_t, std::int64_t>, StageTime> stages;
  for (const auto& [key, sum] : of_tasks) {
    const Task& task = profile.tasks[static_cast<std::size_t>(key.first)];
    StageTime& stage = stages[{task.stage, task.device}];
    stage.stage = task.stage;
    stage.device = task.device;
    const std::int64_t mean = sum.duration / sum.runs;
    if (key.second == BlockKind::kForward) stage.forward += mean;
    if (key.second == BlockKind::kBackward) stage.backward += mean;
    if (key.second == BlockKind::kUpdate) stage.update += mean;
  }
  std::vector<StageTime> result;
  for (const auto& [key, stage] : stages) {
    if (stage.forward + stage.backward + stage.update > 0) result.push_back(stage);
  }
  return result;
}

Analysis analyse(const Profile& profile) {
  Analysis result;
  analyse_calls(profile, result);
  analyse_rate(profile, result);
  result.workers = shares_of_workers(profile);
  for (const WorkerShares& shares : result.workers) {
    result.ramp += shares.ramp / static_cast<double>(result.workers.size());
    result.bubble += shares.bubble / static_cast<double>(result.workers.size());
  }
  result.stages = times_of_stages(profile);
  result.memory = use_of_memory(profile);
  result.op_limits = limits_of_ops(profile);
  result.critical_path = critical_path(profile);
  return result;
}

}  // namespace aspen::profile
