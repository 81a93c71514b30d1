#include "aspen/profile/stage_parts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace aspen::profile {
namespace {

constexpr double kClose = 1.05;       // times the longest stage of the best cut
constexpr double kLeastToTell = 0.1;  // of the forward pass, in all stages but the last

bool is_number(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

class Partition {
 public:
  explicit Partition(const Profile& profile) : profile_(profile) {
    const std::vector<StageTime>& stages = profile.analysis.stages;
    for (std::size_t i = 0; i < stages.size(); ++i) rows_[stages[i].stage] = i;
    for (const Op& op : profile.ops) has_ops_.insert(op.module);
  }

  // A stage on two devices, or two stages on one, are no simple pipeline.
  bool is_simple() const {
    std::set<std::int64_t> devices;
    for (const StageTime& stage : profile_.analysis.stages) devices.insert(stage.device);
    return rows_.size() == profile_.analysis.stages.size() && devices.size() == rows_.size();
  }

  std::vector<StagePart> make() {
    for (const auto& [stage, row] : rows_) add_forward(stage, row);
    for (const Op& op : profile_.ops) add_backward(op);
    if (parts_.empty()) return parts_;
    fit_to_blocks();
    guess_recompute();
    return parts_;
  }

 private:
  const Task& task_of(const Op& op) const { return profile_.tasks[static_cast<std::size_t>(op.task)]; }
  bool is_step(const Op& op) const { return task_of(op).section == Section::kStep && op.calls > 0; }
  static double time_of(const Op& op) { return static_cast<double>(op.duration) / static_cast<double>(op.calls); }

  // The outermost module of a path that was not seen before and is surely called: lists and dictionaries of modules are
  // not. What has ops of its own is, and so is an element of a list. "": there is none.
  std::string first_new(const std::string& path) {
    std::string found;
    for (std::size_t begin = 0, end = 0; end < path.size(); begin = end + 1) {
      end = std::min(path.find('/', begin), path.size());
      const std::string module = path.substr(0, end);
      const std::string next = end < path.size() ? path.substr(end + 1, path.find('/', end + 1) - end - 1) : "";
      const bool is_element = is_number(path.substr(begin, end - begin)) && !is_number(next);
      if (seen_.insert(module).second && found.empty() && (is_element || has_ops_.count(module) > 0)) found = module;
    }
    return found;
  }

  void add_forward(std::int64_t stage, std::size_t row) {
    bool is_first = true;
    for (const Op& op : profile_.ops) {
      if (!is_step(op) || op.pass != Pass::kForward || task_of(op).stage != stage) continue;
      const std::string module = first_new(op.module);
      if (is_first || !module.empty()) parts_.push_back({.module = module, .stage = row});
      is_first = false;
      part_of_.emplace(std::pair(row, op.module), parts_.size() - 1);
      parts_.back().forward += time_of(op);
    }
  }

  // Gradients and repeated ops go with the ops of their module, or with those of one around it.
  void add_backward(const Op& op) {
    const bool is_repeated = op.pass == Pass::kRecompute;
    const auto row = rows_.find(task_of(op).stage);
    if (!is_step(op) || (op.pass != Pass::kBackward && !is_repeated) || row == rows_.end()) return;
    std::string module = op.module;
    auto found = part_of_.find({row->second, module});
    while (found == part_of_.end() && !module.empty()) {
      const std::size_t slash = module.rfind('/');
      module.resize(slash == std::string::npos ? 0 : slash);
      found = part_of_.find({row->second, module});
    }
    if (found == part_of_.end()) found = part_of_.lower_bound({row->second, ""});
    if (found == part_of_.end() || found->first.first != row->second) return;
    StagePart& part = parts_[found->second];
    (is_repeated ? part.recompute : part.backward) += time_of(op);
  }

  // Blocks take a little more than their ops: values are moved, clocks are read.
  void fit_to_blocks() {
    std::vector<double> forward(rows_.size()), backward(rows_.size());
    for (const StagePart& part : parts_) {
      forward[part.stage] += part.forward;
      backward[part.stage] += part.backward + part.recompute;
    }
    for (StagePart& part : parts_) {
      const StageTime& stage = profile_.analysis.stages[part.stage];
      const auto fit = [](std::int64_t block, double ops) { return ops > 0 ? static_cast<double>(block) / ops : 1; };
      part.forward *= fit(stage.forward, forward[part.stage]);
      part.backward *= fit(stage.backward, backward[part.stage]);
      part.recompute *= fit(stage.backward, backward[part.stage]);
    }
  }

  // The last stage computes nothing again; elsewhere its parts would do so as the parts of the others do. If these are
  // too short to tell, all of it: what is promised should not be too much.
  void guess_recompute() {
    if (!profile_.run.training) return;
    const std::size_t last = rows_.size() - 1;
    double forward = 0, recompute = 0, whole = 0;
    for (const StagePart& part : parts_) {
      whole += part.forward;
      if (part.stage == last) continue;
      forward += part.forward;
      recompute += part.recompute;
    }
    const double rate = forward < kLeastToTell * whole ? 1 : recompute / forward;
    for (StagePart& part : parts_) {
      if (part.stage == last) part.recompute = part.forward * rate;
    }
  }

  const Profile& profile_;
  std::map<std::int64_t, std::size_t> rows_;                            // of stages
  std::set<std::string> has_ops_, seen_;                                // modules
  std::map<std::pair<std::size_t, std::string>, std::size_t> part_of_;  // by row of the stage and module
  std::vector<StagePart> parts_;
};

// Modules around and including it; "layers/3" is one, an element of a list.
std::size_t depth_of(const std::string& module) {
  std::size_t depth = 0;
  for (std::size_t begin = 0, end = 0; end < module.size(); begin = end + 1) {
    end = std::min(module.find('/', begin), module.size());
    if (!is_number(module.substr(begin, end - begin))) ++depth;
  }
  return depth;
}

// The best cut before modules that are no deeper. By dynamic programming: longest[i] is the longest of so many stages
// that the parts from i on make, if they are cut best.
std::vector<std::size_t> cut_between(const std::vector<StagePart>& parts, std::size_t num_stages, std::size_t depth) {
  const std::size_t count = parts.size();
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<double> sums(count + 1);  // without the last stage, which computes nothing again
  std::vector<double> longest(count + 1, kNone);
  double last_stage = 0;
  for (std::size_t i = count; i-- > 0;) longest[i] = last_stage += parts[i].time(true);
  for (std::size_t i = 0; i < count; ++i) sums[i + 1] = sums[i] + parts[i].time(false);
  std::vector<std::vector<std::size_t>> next;  // by number of stages after the cut and first part
  for (std::size_t stages = 2; stages <= num_stages; ++stages) {
    std::vector<double> better(count + 1, kNone);
    std::vector<std::size_t>& begins = next.emplace_back(count + 1, count);
    for (std::size_t first = 0; first < count; ++first) {
      for (std::size_t begin = first + 1; begin < count && sums[begin] - sums[first] < better[first]; ++begin) {
        if (parts[begin].module.empty() || depth_of(parts[begin].module) > depth) continue;
        const double time = std::max(sums[begin] - sums[first], longest[begin]);
        if (time < better[first]) {
          better[first] = time;
          begins[first] = begin;
        }
      }
    }
    longest = std::move(better);
  }
  std::vector<std::size_t> cut;
  for (std::size_t first = 0; cut.size() + 1 < num_stages;) {
    first = next[num_stages - 2 - cut.size()][first];
    if (first >= count) return {};
    cut.push_back(first);
  }
  return cut;
}

double longest_of_cut(const std::vector<StagePart>& parts, const std::vector<std::size_t>& cut) {
  const std::vector<double> times = times_of_cut(parts, cut);
  return *std::max_element(times.begin(), times.end());
}

}  // namespace

std::vector<StagePart> parts_of_stages(const Profile& profile) {
  Partition partition(profile);
  return partition.is_simple() ? partition.make() : std::vector<StagePart>{};
}

std::vector<double> times_of_cut(const std::vector<StagePart>& parts, const std::vector<std::size_t>& cut) {
  std::vector<double> times(cut.size() + 1);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto stage = static_cast<std::size_t>(std::upper_bound(cut.begin(), cut.end(), i) - cut.begin());
    times[stage] += parts[i].time(stage == cut.size());
  }
  return times;
}

std::vector<std::size_t> best_cut(const std::vector<StagePart>& parts, std::size_t num_stages) {
  std::set<std::size_t> depths;
  for (const StagePart& part : parts) depths.insert(depth_of(part.module));
  std::vector<std::size_t> best;
  if (depths.empty()) return best;
  best = cut_between(parts, num_stages, *depths.rbegin());
  for (const std::size_t depth : depths) {
    const std::vector<std::size_t> outer = cut_between(parts, num_stages, depth);
    if (!outer.empty() && longest_of_cut(parts, outer) <= kClose * longest_of_cut(parts, best)) return outer;
  }
  return best;
}

}  // namespace aspen::profile
