#include "aspen/compiler/passes/cheap_chains.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

bool is_cheap(const Op& op) {
  return op.def().is_alias() || op.def().is_pointwise() || op.is("normalize") || op.is("batch_norm");
}

// The value whose bytes this one shows.
const Value* origin_of(const Value* value) {
  while (value->producer() != nullptr && value->producer()->def().is_alias()) value = value->producer()->input(0);
  return value;
}

class ChainFinder {
 public:
  ChainFinder(const std::vector<bool>& kept, const std::function<bool(const Op&, const Op&)>& share_stage)
      : kept_(kept), share_stage_(share_stage) {}

  void add(const Op& op) {
    if (!is_cheap(op)) return;
    std::set<std::int64_t> begins;
    const Value* begin = nullptr;
    for (const Value* input : op.inputs()) {
      if (input == nullptr || is_fixed(*input)) continue;
      begin = begin_of(*input, op);
      begins.insert(begin->id());
    }
    if (begins.size() > 1) return;
    for (const Value* output : op.outputs()) {
      if (begin == nullptr) {
        fixed_.insert(output);
      } else {
        begin_of_.emplace(output, begin);
      }
    }
    if (begin != nullptr) chains_[begin->id()].push_back(&op);
  }

  std::unordered_set<const Op*> worth_repeating() const {
    std::unordered_set<const Op*> result;
    for (const auto& [id, ops] : chains_) {
      const Value& begin = *begin_of_.at(ops.front()->output());
      if (saved_bytes(ops, begin) > kept_bytes(begin, *ops.front())) result.insert(ops.begin(), ops.end());
    }
    return result;
  }

 private:
  // Whether the value is the same in every micro-batch, as far as a pass over the graph can tell.
  bool is_fixed(const Value& value) const {
    const Op* producer = value.producer();
    if (producer == nullptr) return value.variable() != nullptr;
    return producer->def().is_source() || fixed_.count(&value) != 0;
  }

  const Value* begin_of(const Value& value, const Op& user) const {
    auto found = begin_of_.find(&value);
    if (found == begin_of_.end() || kept_[value.id()] || !share_stage_(*value.producer(), user)) return &value;
    return found->second;
  }

  bool is_needed_later(const Value& value, const Op& near) const {
    return std::any_of(value.users().begin(), value.users().end(), [&](const Op* user) {
      return user->section == Section::kStep && user->backward && share_stage_(near, *user);
    });
  }

  // What the backward pass would no longer find in memory.
  std::int64_t saved_bytes(const std::vector<const Op*>& chain, const Value& begin) const {
    std::map<std::int64_t, std::int64_t> saved;  // by id, as aliases share their bytes
    for (const Op* op : chain) {
      for (const Value* output : op->outputs()) {
        const Value* origin = origin_of(output);
        if (kept_[output->id()] || origin == origin_of(&begin) || !is_needed_later(*output, *op)) continue;
        saved[origin->id()] = static_cast<std::int64_t>(origin->type().bytes());
      }
    }
    std::int64_t bytes = 0;
    for (const auto& [id, size] : saved) bytes += size;
    return bytes;
  }

  // What it would have to find instead.
  std::int64_t kept_bytes(const Value& begin, const Op& near) const {
    return is_needed_later(begin, near) ? 0 : static_cast<std::int64_t>(begin.type().bytes());
  }

  const std::vector<bool>& kept_;
  const std::function<bool(const Op&, const Op&)>& share_stage_;
  std::unordered_set<const Value*> fixed_;
  std::unordered_map<const Value*, const Value*> begin_of_;  // of the results of chains
  std::map<std::int64_t, std::vector<const Op*>> chains_;    // by id of the value they begin at
};

}  // namespace

std::unordered_set<const Op*> cheap_chains(const std::vector<Op*>& repeatable, const std::vector<bool>& kept,
                                           const std::function<bool(const Op&, const Op&)>& share_stage) {
  ChainFinder finder(kept, share_stage);
  for (const Op* op : repeatable) finder.add(*op);
  return finder.worth_repeating();
}

}  // namespace aspen
