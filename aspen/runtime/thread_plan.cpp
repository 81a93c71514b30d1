#include "aspen/runtime/thread_plan.h"

#include <algorithm>
#include <numeric>

#include "aspen/runtime/task_order.h"

namespace aspen {
namespace {

// How much more than its even share a thread may have to do.
constexpr double kUnevenness = 1.25;

using Groups = ThreadPlan::Groups;

struct UsedDevices {
  std::vector<std::size_t> computing, bringing, moving;  // ascending
};

UsedDevices used_devices(const Program& program) {
  UsedDevices result;
  for (std::size_t device = 0; device < program.devices.size(); ++device) {
    auto is_on = [device](const Task& task) { return task.device == device; };
    if (computes(program, device)) {
      (only_brings(program, device) ? result.bringing : result.computing).push_back(device);
    } else if (std::any_of(program.step.begin(), program.step.end(), is_on) ||
               std::any_of(program.update.begin(), program.update.end(), is_on)) {
      result.moving.push_back(device);
    }
  }
  return result;
}

double work_on(const std::vector<Task>& tasks, std::size_t device) {
  double work = 0;
  for (const Task& task : tasks) {
    if (task.device == device) work += task.nanoseconds;
  }
  return work;
}

std::size_t threads_worth(double work, std::size_t most) {
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::min(work / kLeastShare, 1e6)), 1,
                                 std::max<std::size_t>(1, most));
}

// How many neighbours, from the first on, have no more than `most` to do together; at least one.
std::size_t fill(const std::vector<double>& works, std::size_t first, double most) {
  std::size_t end = first + 1;
  for (double sum = works[first]; end < works.size() && sum + works[end] <= most; ++end) sum += works[end];
  return end;
}

// Cuts a row of devices into `count` groups of neighbours of which the one with most to do has as little as possible:
// the least limit that filling one group after the other can keep.
Groups cut_evenly(const std::vector<std::size_t>& devices, const std::vector<double>& works, std::size_t count,
                  double& most) {
  std::vector<double> limits;
  for (std::size_t first = 0; first < works.size(); ++first) {
    double sum = 0;
    for (std::size_t last = first; last < works.size(); ++last) limits.push_back(sum += works[last]);
  }
  std::sort(limits.begin(), limits.end());
  double largest = *std::max_element(works.begin(), works.end());
  for (double limit : limits) {
    if (limit < largest) continue;
    Groups groups;
    for (std::size_t first = 0; first < works.size();) {
      std::size_t end = fill(works, first, limit);
      groups.emplace_back(devices.begin() + static_cast<std::ptrdiff_t>(first),
                          devices.begin() + static_cast<std::ptrdiff_t>(end));
      first = end;
    }
    if (groups.size() > count) continue;
    most = limit;
    return groups;
  }
  return {devices};
}

Groups each_alone(std::size_t count) {
  Groups groups(count);
  for (std::size_t i = 0; i < count; ++i) groups[i] = {i};
  return groups;
}

// Replicas have equal work.
Groups group_replicas(std::size_t replicas, double work, std::size_t num_cpus) {
  std::size_t threads = threads_worth(work * static_cast<double>(replicas), std::min(replicas, num_cpus));
  std::size_t most = (replicas + threads - 1) / threads;
  bool is_uneven = static_cast<double>(most * threads) > kUnevenness * static_cast<double>(replicas);
  if (is_uneven && threads == num_cpus) return each_alone(replicas);
  Groups groups(threads);
  for (std::size_t replica = 0; replica < replicas; ++replica) groups[replica * threads / replicas].push_back(replica);
  return groups;
}

Groups group_devices(const Program& program, const std::vector<std::size_t>& devices, std::size_t num_cpus) {
  std::vector<double> works;
  for (std::size_t device : devices) works.push_back(work_on(program.step, device));
  double all = std::accumulate(works.begin(), works.end(), 0.0);
  std::size_t threads = threads_worth(all, std::min(devices.size(), num_cpus));
  if (threads == 1 || take_turns(program.step)) return {devices};
  double most = 0, largest = *std::max_element(works.begin(), works.end());
  Groups groups = cut_evenly(devices, works, threads, most);
  double even = std::max(largest, all / static_cast<double>(threads));
  if (most <= kUnevenness * even || all < kLeastShare * static_cast<double>(devices.size())) return groups;
  groups.clear();
  for (std::size_t device : devices) groups.push_back({device});
  return groups;
}

}  // namespace

bool computes(const Program& program, std::size_t device) {
  auto works = [&](const Task& task) { return task.device == device && !task.instructions.empty(); };
  return std::any_of(program.step.begin(), program.step.end(), works) ||
         std::any_of(program.update.begin(), program.update.end(), works);
}

bool only_brings(const Program& program, std::size_t device) {
  auto works = [&](const Task& task) { return task.device == device && !task.instructions.empty() && !task.moves; };
  return computes(program, device) && std::none_of(program.step.begin(), program.step.end(), works) &&
         std::none_of(program.update.begin(), program.update.end(), works);
}

ThreadPlan plan_threads(const Program& program, std::size_t num_cpus) {
  auto [computing, bringing, moving] = used_devices(program);
  double step = 0, update = 0;
  for (std::size_t device : computing) {
    step += work_on(program.step, device);
    update += work_on(program.update, device);
  }
  ThreadPlan plan;
  double cycle = step * static_cast<double>(program.gradient_accumulation) + update;
  plan.replicas = group_replicas(program.replicas, cycle, num_cpus);
  if (!computing.empty()) {
    bool has_whole_replicas = plan.replicas.size() < program.replicas;
    plan.devices = group_devices(program, computing, has_whole_replicas ? 1 : num_cpus / program.replicas);
  }
  plan.num_working = plan.devices.size();
  bool is_worth_moving = num_cpus > 1 && step >= 2 * kLeastShare;
  for (std::size_t device : bringing) {
    if (is_worth_moving || plan.devices.empty()) {
      plan.devices.push_back({device});
    } else {
      plan.devices[0].push_back(device);
    }
  }
  plan.num_computing = plan.devices.size();
  if (is_worth_moving || moving.empty()) {
    for (std::size_t device : moving) plan.devices.push_back({device});
  } else if (plan.num_computing == 1) {
    plan.devices[0].insert(plan.devices[0].end(), moving.begin(), moving.end());
  } else {
    plan.devices.push_back(moving);
  }
  return plan;
}

ThreadPlan thread_per_device(const Program& program) {
  auto [computing, bringing, moving] = used_devices(program);
  ThreadPlan plan{.replicas = each_alone(program.replicas),
                  .num_computing = computing.size() + bringing.size(),
                  .num_working = computing.size()};
  for (const auto* devices : {&computing, &bringing, &moving}) {
    for (std::size_t device : *devices) plan.devices.push_back({device});
  }
  return plan;
}

}  // namespace aspen
