#include <algorithm>
#include <map>
#include <tuple>

#include "aspen/profile/analyse.h"

namespace aspen::profile {
namespace {

// The blocks of one call and who could have kept each of them waiting.
class PathFinder {
 public:
  PathFinder(const Profile& profile, std::int64_t call) : profile_(profile) {
    for (std::size_t i = 0; i < profile.trace.blocks.size(); ++i) {
      const Block& block = profile.trace.blocks[i];
      if (block.call != call) continue;
      const auto row = static_cast<std::int64_t>(i);
      const Worker& worker = worker_of(block);
      by_end_.push_back(row);
      of_crews_[worker.crew].push_back(row);
      if (block.task >= 0) of_tasks_[{block.task, block.micro_batch, worker.replica}] = row;  // the later of two
    }
    for (const Wait& wait : profile.waits) waits_.emplace(wait.task, wait);
    std::sort(by_end_.begin(), by_end_.end(),
              [&](auto a, auto b) { return std::pair(end_of(a), a) < std::pair(end_of(b), b); });
  }

  std::vector<std::int64_t> find() const {
    std::vector<std::int64_t> path;
    if (by_end_.empty()) return path;
    for (std::int64_t row = by_end_.back(); row >= 0; row = before(row)) path.push_back(row);
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  const Block& block(std::int64_t row) const { return profile_.trace.blocks[static_cast<std::size_t>(row)]; }
  const Worker& worker_of(const Block& block) const { return profile_.workers[static_cast<std::size_t>(block.worker)]; }
  std::int64_t end_of(std::int64_t row) const { return block(row).begin + block(row).duration; }

  // The block that ended last, of those that had to end before `row` could begin; -1: none.
  std::int64_t before(std::int64_t row) const {
    std::int64_t result = before_on_thread(row);
    const auto take = [&](std::int64_t other) {
      // Rows lie by begin: only one that lies before can have kept this one waiting, and the path ends.
      if (other >= 0 && other < row && (result < 0 || end_of(other) > end_of(result))) result = other;
    };
    const Block& here = block(row);
    for (auto [wait, end] = waits_.equal_range(here.task); wait != end; ++wait) {
      for_each_waited(here, wait->second, take);
    }
    // Updates and exchanges come after all that began before them: devices meet there.
    if (here.kind == BlockKind::kUpdate || here.kind == BlockKind::kExchange) take(last_ended_by(here.begin));
    return result;
  }

  std::int64_t before_on_thread(std::int64_t row) const {
    const std::vector<std::int64_t>& crew = of_crews_.at(worker_of(block(row)).crew);
    const auto here = std::lower_bound(crew.begin(), crew.end(), row);
    return here == crew.begin() ? -1 : *(here - 1);
  }

  std::int64_t last_ended_by(std::int64_t time) const {
    const auto after =
        std::partition_point(by_end_.begin(), by_end_.end(), [&](auto row) { return end_of(row) <= time; });
    return after == by_end_.begin() ? -1 : *(after - 1);
  }

  template <class F>
  void for_each_waited(const Block& here, const Wait& wait, const F& call) const {
    const Task& on = profile_.tasks[static_cast<std::size_t>(wait.on)];
    const std::int64_t rounds = on.section == Section::kUpdate ? profile_.run.gradient_accumulation : 1;
    const std::int64_t micro_batch = here.micro_batch - wait.lag * rounds;
    for (std::int64_t replica = 0; replica < profile_.run.replicas; ++replica) {
      if (!wait.in_all_replicas && replica != worker_of(here).replica) continue;
      const auto found = of_tasks_.find({wait.on, micro_batch, replica});
      if (found != of_tasks_.end()) call(found->second);
    }
  }

  const Profile& profile_;
  std::multimap<std::int64_t, Wait> waits_;                     // by the task that waits
  std::map<std::int64_t, std::vector<std::int64_t>> of_crews_;  // rows, ascending
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> of_tasks_;
  std::vector<std::int64_t> by_end_;
};

}  // namespace

std::vector<std::int64_t> critical_path(const Profile& profile) {
  if (profile.trace.blocks.empty()) return {};
  // Of the call that the page shows: the last one with its ops.
  const auto& blocks = profile.trace.blocks;
  const auto found =
      std::find_if(blocks.rbegin(), blocks.rend(), [](const auto& block) { return block.op_durations >= 0; });
  return PathFinder(profile, (found == blocks.rend() ? blocks.back() : *found).call).find();
}

}  // namespace aspen::profile
