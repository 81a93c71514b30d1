#include "aspen/compiler/placement/part_costs.h"

#include <algorithm>
#include <limits>

namespace aspen {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kAboutAsFast = 1.01;

// Costs of all stages that begin at one part, found one after the other: each is its predecessor and a part more.
class GrowingStage {
 public:
  GrowingStage(const PartCosts& costs, std::int64_t begin)
      : costs_(costs), next_(begin), gone_(costs.parts.size() + 1, 0) {}

  void grow() {
    const PartCosts::Part& part = costs_.parts[static_cast<std::size_t>(next_)];
    forward_ += part.forward;
    backward_ += part.backward;
    variable_bytes_ += part.variable_bytes;
    saved_bytes_ += part.saved_bytes;
    scratch_bytes_ = std::max(scratch_bytes_, part.scratch_bytes);
    ++next_;
  }

  void send(const PartCosts::Value& value) {
    if (value.used.empty()) return;
    sent_bytes_ += value.bytes;
    gone_[static_cast<std::size_t>(value.used.back())] += value.bytes;
  }
  void receive(const PartCosts::Value& value) { received_bytes_ += value.bytes; }
  // What only parts up to the last one need is not sent.
  void settle() { sent_bytes_ -= gone_[static_cast<std::size_t>(next_ - 1)]; }

  // In training a gradient goes back for each value that was received.
  double time(bool is_last) const {
    const double moved = sent_bytes_ + (costs_.is_training ? received_bytes_ : 0);
    const double again = costs_.recomputes && !is_last ? forward_ : 0;
    return forward_ + again + backward_ + costs_.nanoseconds_per_byte * moved;
  }
  double transfers() const { return sent_bytes_; }
  // Values from other stages wait for their turn in each micro-batch under way; what is computed again, or kept by the
  // last stage, is there once.
  double bytes(std::int64_t stage, std::int64_t num_stages) const {
    const double micro_batches = static_cast<double>(num_stages - stage) + 1;
    const double kept = costs_.recomputes || stage + 1 == num_stages ? saved_bytes_ : saved_bytes_ * micro_batches;
    return variable_bytes_ + kept + scratch_bytes_ + received_bytes_ * micro_batches;
  }

 private:
  const PartCosts& costs_;
  std::int64_t next_;  // the part after it
  double forward_ = 0, backward_ = 0, variable_bytes_ = 0, saved_bytes_ = 0, scratch_bytes_ = 0, received_bytes_ = 0,
         sent_bytes_ = 0;
  std::vector<double> gone_;  // by part: bytes of values that are used there last
};

// Uses of values by part, each with the part that had the value before.
struct Arrival {
  const PartCosts::Value* value;
  std::int64_t before;
};

class Arrivals {
 public:
  explicit Arrivals(const PartCosts& costs) : made_(costs.parts.size()), used_(costs.parts.size()) {
    for (const PartCosts::Value& value : costs.values) {
      made_[static_cast<std::size_t>(value.made)].push_back(&value);
      std::int64_t before = value.made;
      for (std::int64_t part : value.used) {
        used_[static_cast<std::size_t>(part)].push_back({&value, before});
        before = part;
      }
    }
  }

  // A stage that begins at `begin` takes in this part.
  void add(std::int64_t part, std::int64_t begin, GrowingStage& stage) const {
    stage.grow();
    for (const PartCosts::Value* value : made_[static_cast<std::size_t>(part)]) stage.send(*value);
    for (const auto& [value, before] : used_[static_cast<std::size_t>(part)]) {
      if (before < begin) stage.receive(*value);
    }
    stage.settle();
  }

 private:
  std::vector<std::vector<const PartCosts::Value*>> made_;
  std::vector<std::vector<Arrival>> used_;
};

template <class Tell>
void for_each_stage(const PartCosts& costs, const std::vector<std::int64_t>& begins, const Tell& tell) {
  const Arrivals arrivals(costs);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const bool is_last = i + 1 == begins.size();
    const std::int64_t end = is_last ? static_cast<std::int64_t>(costs.parts.size()) : begins[i + 1];
    GrowingStage stage(costs, begins[i]);
    for (std::int64_t part = begins[i]; part < end; ++part) arrivals.add(part, begins[i], stage);
    tell(static_cast<std::int64_t>(i), is_last, stage);
  }
}

// Dynamic programming over the parts at which stages end. Stage s may end before part b if some stage s - 1 ends at a
// and the stage [a, b) is worth it; `worth` tells its cost, and `join` that of both.
class CutSearch {
 public:
  CutSearch(const PartCosts& costs, std::int64_t num_stages, const std::function<double(std::int64_t)>& limit)
      : costs_(costs), num_parts_(static_cast<std::int64_t>(costs.parts.size())), num_stages_(num_stages),
        limit_(limit), arrivals_(costs) {}

  std::vector<std::int64_t> run() {
    const auto slower = [](double a, double b) { return std::max(a, b); };
    const auto time = [](const GrowingStage& stage, bool is_last) { return stage.time(is_last); };
    search(slower, time);
    const double fastest = best(num_stages_, num_parts_).cost;
    if (fastest == kNever) return {};
    const auto sum = [](double a, double b) { return a + b; };
    const auto transfers = [&](const GrowingStage& stage, bool is_last) {
      return stage.time(is_last) <= kAboutAsFast * fastest ? stage.transfers() : kNever;
    };
    search(sum, transfers);
    std::vector<std::int64_t> begins(static_cast<std::size_t>(num_stages_));
    std::int64_t end = num_parts_;
    for (std::int64_t stage = num_stages_; stage > 0; --stage) {
      end = best(stage, end).begin;
      begins[static_cast<std::size_t>(stage - 1)] = end;
    }
    return begins;
  }

 private:
  struct Best {
    double cost = kNever;
    std::int64_t begin = 0;  // of the last stage
  };
  // Of the first `stages` stages, which end before part `end`.
  Best& best(std::int64_t stages, std::int64_t end) {
    return best_[static_cast<std::size_t>(stages * (num_parts_ + 1) + end)];
  }

  template <class Join, class Worth>
  void search(const Join& join, const Worth& worth) {
    best_.assign(static_cast<std::size_t>((num_stages_ + 1) * (num_parts_ + 1)), {});
    best(0, 0).cost = 0;
    for (std::int64_t begin = 0; begin < num_parts_; ++begin) {
      if (begin > 0 && !costs_.parts[static_cast<std::size_t>(begin)].may_begin_stage) continue;
      GrowingStage stage(costs_, begin);
      const std::int64_t last_call = begin == 0 ? 0 : costs_.parts[static_cast<std::size_t>(begin)].last_call;
      for (std::int64_t end = begin + 1; end <= num_parts_; ++end) {
        arrivals_.add(end - 1, begin, stage);
        if (end <= last_call) continue;
        const bool is_end = end == num_parts_ || costs_.parts[static_cast<std::size_t>(end)].may_begin_stage;
        if (is_end) try_stage(begin, end, stage, join, worth);
      }
    }
  }

  template <class Join, class Worth>
  void try_stage(std::int64_t begin, std::int64_t end, const GrowingStage& stage, const Join& join,
                 const Worth& worth) {
    const bool is_last = end == num_parts_;
    const double cost = worth(stage, is_last);
    if (cost == kNever) return;
    const std::int64_t first = is_last ? num_stages_ - 1 : 0, last = is_last ? num_stages_ : num_stages_ - 1;
    for (std::int64_t index = first; index < last; ++index) {
      const Best& before = best(index, begin);
      if (before.cost == kNever) continue;
      const double allowed = limit_ == nullptr ? 0 : limit_(index);
      if (allowed != 0 && stage.bytes(index, num_stages_) > allowed) continue;
      const double joined = join(before.cost, cost);
      Best& known = best(index + 1, end);
      if (joined < known.cost) known = {joined, begin};
    }
  }

  const PartCosts& costs_;
  std::int64_t num_parts_, num_stages_;
  const std::function<double(std::int64_t)>& limit_;
  Arrivals arrivals_;
  std::vector<Best> best_;
};

}  // namespace

std::vector<double> PartCosts::stage_times(const std::vector<std::int64_t>& begins) const {
  std::vector<double> times;
  for_each_stage(*this, begins,
                 [&](std::int64_t, bool is_last, const GrowingStage& stage) { times.push_back(stage.time(is_last)); });
  return times;
}

double PartCosts::slowest(const std::vector<std::int64_t>& begins) const {
  const std::vector<double> times = stage_times(begins);
  return *std::max_element(times.begin(), times.end());
}

std::vector<double> PartCosts::stage_bytes(const std::vector<std::int64_t>& begins) const {
  std::vector<double> bytes;
  for_each_stage(*this, begins, [&](std::int64_t index, bool, const GrowingStage& stage) {
    bytes.push_back(stage.bytes(index, static_cast<std::int64_t>(begins.size())));
  });
  return bytes;
}

std::vector<std::int64_t> best_cut(const PartCosts& costs, std::int64_t num_stages,
                                   const std::function<double(std::int64_t stage)>& limit) {
  return CutSearch(costs, num_stages, limit).run();
}

}  // namespace aspen
