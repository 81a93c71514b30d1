#include <algorithm>
#include <map>

#include "aspen/profile/analyse.h"

namespace aspen::profile {
namespace {

using Blocks = std::vector<const Block*>;

bool is_step(const Block& block) { return block.kind == BlockKind::kForward || block.kind == BlockKind::kBackward; }

bool is_work(const Block& block) { return is_step(block) || block.kind == BlockKind::kUpdate; }

std::int64_t end_of(const Block& block) { return block.begin + block.duration; }

// Which filling of the pipeline a micro-batch belongs to: training empties it for every weight update.
std::int64_t filling_of(const Run& run, const Block& block) {
  return run.training ? block.micro_batch / std::max<std::int64_t>(run.gradient_accumulation, 1) : 0;
}

// Of a stretch of time, what the blocks of other workers of the crew take.
std::int64_t taken(const Blocks& crew, std::int64_t worker, std::int64_t begin, std::int64_t end) {
  std::int64_t result = 0;
  // Blocks of a crew follow each other, so those before the first that ends after `begin` do not matter.
  auto block = std::partition_point(crew.begin(), crew.end(), [&](const Block* b) { return end_of(*b) <= begin; });
  for (; block != crew.end() && (*block)->begin < end; ++block) {
    if ((*block)->worker == worker) continue;
    result += std::max<std::int64_t>(std::min(end_of(**block), end) - std::max((*block)->begin, begin), 0);
  }
  return result;
}

// Nanoseconds of one worker, in all traced calls.
struct Times {
  std::int64_t busy = 0, transfer = 0, ramp = 0, bubble = 0, shared = 0;
  std::int64_t total() const { return busy + transfer + ramp + bubble + shared; }
};

class WorkerTimes {
 public:
  WorkerTimes(const Run& run, std::int64_t worker, const Blocks& crew) : run_(run), worker_(worker), crew_(crew) {}

  // own: blocks of the worker in one call, by begin.
  void add_call(const Call& call, const Blocks& own) {
    std::int64_t time = call.begin, before = -1;
    for (std::size_t i = 0; i < own.size(); ++i) {
      add_wait(time, own[i]->begin, before >= 0 && before == next_filling(own, i));
      (is_work(*own[i]) ? times.busy : times.transfer) += own[i]->duration;
      if (is_step(*own[i])) before = filling_of(run_, *own[i]);
      time = std::max(time, end_of(*own[i]));
    }
    add_wait(time, call.begin + call.duration, false);
  }
  Times times;

 private:
  std::int64_t next_filling(const Blocks& own, std::size_t from) const {
    for (std::size_t i = from; i < own.size(); ++i) {
      if (is_step(*own[i])) return filling_of(run_, *own[i]);
    }
    return -1;
  }
  void add_wait(std::int64_t begin, std::int64_t end, bool in_between) {
    if (end <= begin) return;
    const std::int64_t shared = taken(crew_, worker_, begin, end);
    times.shared += shared;
    (in_between ? times.bubble : times.ramp) += end - begin - shared;
  }
  const Run& run_;
  std::int64_t worker_;
  const Blocks& crew_;
};

}  // namespace

std::vector<WorkerShares> shares_of_workers(const Profile& profile) {
  std::map<std::int64_t, Blocks> of_crews;
  std::map<std::pair<std::int64_t, std::int64_t>, Blocks> of_workers;  // and calls
  for (const Block& block : profile.trace.blocks) {
    of_crews[profile.workers[static_cast<std::size_t>(block.worker)].crew].push_back(&block);
    if (block.call >= 0) of_workers[{block.worker, block.call}].push_back(&block);
  }
  std::vector<WorkerShares> result;
  for (std::size_t i = 0; i < profile.workers.size(); ++i) {
    const auto worker = static_cast<std::int64_t>(i);
    WorkerTimes sums(profile.run, worker, of_crews[profile.workers[i].crew]);
    for (auto of_worker = of_workers.lower_bound({worker, 0});
         of_worker != of_workers.end() && of_worker->first.first == worker; ++of_worker) {
      sums.add_call(profile.calls[static_cast<std::size_t>(of_worker->first.second)], of_worker->second);
    }
    const Times& times = sums.times;
    const auto share = [&](std::int64_t part) {
      return times.total() > 0 ? static_cast<double>(part) / static_cast<double>(times.total()) : 0;
    };
    result.push_back({.worker = worker,
                      .busy = share(times.busy),
                      .transfer = share(times.transfer),
                      .ramp = share(times.ramp),
                      .bubble = share(times.bubble),
                      .shared = share(times.shared)});
  }
  return result;
}

}  // namespace aspen::profile
