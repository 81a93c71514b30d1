#include "aspen/compiler/passes/choose_checkpoints.h"

#include <algorithm>
#include <unordered_map>

#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

constexpr std::size_t kMostParts = 64;

class CheckpointChooser {
 public:
  CheckpointChooser(const CheckpointRequest& request, const std::vector<bool>& kept) : request_(request), kept_(kept) {
    const std::size_t count = request.ops.size();
    for (std::size_t i = 0; i < count; ++i) position_.emplace(request.ops[i], i);
    saved_.resize(count, 0);
    for (std::size_t i = 0; i < count; ++i) note_results(*request.ops[i], i);
    crossing_.resize(count + 1, 0);
    for (const Life& life : lives_) {
      for (std::size_t border = life.made + 1; border <= life.last_use; ++border) crossing_[border] += life.bytes;
    }
  }

  // Positions at which parts begin, without the first.
  std::vector<std::size_t> best() const {
    double saved = 0;
    for (double bytes : saved_) saved += bytes;
    std::vector<std::size_t> best;
    double least = saved;  // one part: all of it at once
    for (std::size_t parts = 2; parts <= kMostParts; ++parts) {
      std::vector<std::size_t> borders = borders_of(saved / static_cast<double>(parts));
      const double bytes = needed_bytes(borders);
      if (bytes >= least) continue;
      least = bytes;
      best = std::move(borders);
    }
    return best;
  }

  void keep(const std::vector<std::size_t>& borders, std::vector<bool>& kept) const {
    for (const Life& life : lives_) {
      if (crosses(life, borders)) kept[life.value->id()] = true;
    }
    if (!request_.turns_at_once) return;
    for (std::size_t i = borders.back(); i < request_.ops.size(); ++i) {
      for (const Value* output : request_.ops[i]->outputs()) kept[output->id()] = true;
    }
  }

 private:
  // A result, and the last op of the stage that needs it to run again.
  struct Life {
    const Value* value;
    double bytes;
    std::size_t made, last_use;
  };

  void note_results(const Op& op, std::size_t position) {
    if (op.def().is_alias() || op.def().is_source()) return;
    for (const Value* output : op.outputs()) {
      if (kept_[output->id()]) continue;
      Life life{output, static_cast<double>(output->type().bytes()), position, position};
      bool is_saved = false;
      follow(*output, life.last_use, is_saved);
      if (is_saved) saved_[position] += life.bytes;
      if (life.last_use > position) lives_.push_back(life);
    }
  }

  void follow(const Value& value, std::size_t& last_use, bool& is_saved) const {
    for (const Op* user : value.users()) {
      is_saved = is_saved || user->backward;
      const auto found = position_.find(user);
      if (found != position_.end()) last_use = std::max(last_use, found->second);
      if (!user->def().is_alias()) continue;
      for (const Value* output : user->outputs()) follow(*output, last_use, is_saved);
    }
  }

  // Parts of about so many saved bytes; each ends where the fewest bytes cross in its second half.
  std::vector<std::size_t> borders_of(double part_bytes) const {
    std::vector<std::size_t> borders;
    std::size_t begin = 0;
    while (true) {
      double bytes = 0;
      std::size_t best = 0, at = begin;
      for (; at < saved_.size() && bytes + saved_[at] <= part_bytes; ++at) {
        bytes += saved_[at];
        const bool is_late = 2 * bytes >= part_bytes;
        if (is_late && (best == 0 || crossing_[at + 1] <= crossing_[best])) best = at + 1;
      }
      if (at == saved_.size()) return borders;
      begin = best != 0 ? best : at + 1;  // a single op may need more than a part
      if (begin >= saved_.size()) return borders;
      borders.push_back(begin);
    }
  }

  static bool crosses(const Life& life, const std::vector<std::size_t>& borders) {
    const auto next = std::upper_bound(borders.begin(), borders.end(), life.made);
    return next != borders.end() && *next <= life.last_use;
  }

  double needed_bytes(const std::vector<std::size_t>& borders) const {
    double kept = 0, largest = 0;
    for (const Life& life : lives_) kept += crosses(life, borders) ? life.bytes : 0;
    std::size_t begin = 0;
    for (std::size_t part = 0; part <= borders.size(); ++part) {
      const std::size_t end = part < borders.size() ? borders[part] : saved_.size();
      double bytes = 0;
      for (std::size_t i = begin; i < end; ++i) bytes += saved_[i];
      largest = std::max(largest, bytes);
      begin = end;
    }
    return kept * request_.micro_batches + largest;
  }

  const CheckpointRequest& request_;
  const std::vector<bool>& kept_;
  std::unordered_map<const Op*, std::size_t> position_;
  std::vector<double> saved_;     // by position: bytes that the backward pass reads of its results
  std::vector<double> crossing_;  // by border, which comes before the op of its number
  std::vector<Life> lives_;
};

}  // namespace

void choose_checkpoints(const CheckpointRequest& request, std::vector<bool>& kept) {
  const CheckpointChooser chooser(request, kept);
  const std::vector<std::size_t> borders = chooser.best();
  if (borders.empty()) {
    if (!request.turns_at_once) return;
    for (const Op* op : request.ops) {  // nothing is gained: all of it is kept
      for (const Value* output : op->outputs()) kept[output->id()] = true;
    }
    return;
  }
  chooser.keep(borders, kept);
}

}  // namespace aspen
