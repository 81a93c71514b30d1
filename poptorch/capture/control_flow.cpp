#include "poptorch/capture/control_flow.h"

#include <ATen/ops/where.h>

#include <algorithm>

#include "aspen/base/log.h"
#include "aspen/ops/build.h"
#include "aspen/ops/control/control.h"
#include "poptorch/capture/region.h"

namespace poptorch {
namespace {

using aspen::Op;
using aspen::Value;

void say(const char* op, const char* what, const std::string& reason) {
  aspen::log::debug("[{}] {}: {}", op, what, reason);
}

// Ops that a region is to become stand where that region stood.
class AtRegion {
 public:
  AtRegion(Recorder& recorder, aspen::Placement placement) : recorder_(recorder), before_(recorder.b.placement) {
    recorder.b.placement = placement;
  }
  ~AtRegion() { recorder_.b.placement = before_; }
  AtRegion(const AtRegion&) = delete;
  AtRegion& operator=(const AtRegion&) = delete;

 private:
  Recorder& recorder_;
  aspen::Placement before_;
};

Op* emit_loop(Recorder& recorder, std::int64_t count, const Region& region, const std::vector<Value*>& results) {
  Region::Operands operands;
  region.find_operands(results, operands);
  std::vector<Value*> inputs;
  for (const Op* input : region.inputs()) inputs.push_back(input->input(0));
  aspen::LoopAttrs attrs{.count = count,
                         .carried = static_cast<std::int64_t>(inputs.size()),
                         .sliced = 0,
                         .reverse = false,
                         .body = region.cut(results, operands)};
  inputs.insert(inputs.end(), operands.values.begin(), operands.values.end());
  const AtRegion place(recorder, region.placement());
  return recorder.b.emit("loop", std::move(inputs), std::move(attrs));
}

// -- branches ---------------------------------------------------------------------------------------------------------
// One side of a branch, recorded.
struct Side {
  Side(Recorder& recorder, const Branch& branch) : region(recorder, "cond", /*runs_always=*/false) {
    tensors = branch.body(region.begin(branch.inputs));
    results = region.end(tensors);
  }
  Region region;
  Tensors tensors;
  std::vector<Value*> results;
};

class BranchRecorder {
 public:
  BranchRecorder(Recorder& recorder, const at::Tensor& condition) : recorder_(recorder), condition_(condition) {}

  Tensors run(const Branch& yes, const Branch& no, const std::function<void(const Tensors&, const Tensors&)>& check) {
    for (const Branch* branch : {&yes, &no}) {
      sides_.push_back(std::make_unique<Side>(recorder_, *branch));
      take_back_writes(*sides_.back());
    }
    check(sides_[0]->tensors, sides_[1]->tensors);
    for (const auto& side : sides_) {
      if (!side->region.obstacle().empty()) return both(side->region.obstacle());
    }
    return one();
  }

 private:
  // What one side has written to memory outside.
  struct Written {
    std::shared_ptr<TracedStorage> storage;
    Value* before = nullptr;
    std::vector<Value*> after;  // by side
  };

  // The other side, and all that comes later, must not see it.
  void take_back_writes(const Side& side) {
    for (const auto& [storage, before] : side.region.writes()) {
      auto found = std::find_if(written_.begin(), written_.end(),
                                [&](const Written& written) { return written.storage == storage; });
      if (found == written_.end()) {
        written_.push_back({storage, before, {before, before}});
        found = std::prev(written_.end());
      }
      Value* after = storage->base;
      auto& paths = recorder_.capture().paths;
      if (recorder_.training() && (paths.wants(before) || paths.wants(after))) {
        throw aspen::UserError(
            "[cond] a body writes to a tensor of type {} that was made outside of it and that gradients flow through. "
            "Return what it is to hold instead.{}",
            aspen::to_string(before->type()), recorder_.where());
      }
      found->after[sides_.size() - 1] = after;
      set(*storage, before);
    }
  }

  static void set(TracedStorage& storage, Value* contents) {
    storage.base = contents;
    ++storage.writes;
  }

  Tensors one() {
    Region::Operands operands;
    std::vector<std::vector<Value*>> results;
    for (std::size_t k = 0; k < sides_.size(); ++k) {
      results.push_back(sides_[k]->results);
      for (const Written& written : written_) results[k].push_back(written.after[k]);
      sides_[k]->region.find_operands(results[k], operands);
    }
    for (const auto& side : sides_) {
      for (const Op* input : side->region.inputs()) operands.place_of(input->input(0));
    }
    aspen::CondAttrs attrs{.then_body = body(0, results[0], operands), .else_body = body(1, results[1], operands)};
    return recorder_.record("cond", {condition_}, [&] {
      std::vector<Value*> inputs{recorder_.value_of(condition_)};
      inputs.insert(inputs.end(), operands.values.begin(), operands.values.end());
      const AtRegion place(recorder_, sides_[0]->region.placement());
      Op* op = recorder_.b.emit("cond", std::move(inputs), std::move(attrs));
      for (const auto& side : sides_) side->region.retire();
      const std::size_t count = sides_[0]->results.size();
      for (std::size_t i = 0; i < written_.size(); ++i) set(*written_[i].storage, op->output(count + i));
      Tensors tensors;
      for (std::size_t i = 0; i < count; ++i) {
        tensors.push_back(recorder_.wrap(op->output(i), sides_[0]->tensors[i].scalar_type()));
      }
      return tensors;
    });
  }

  // A body that takes the operands of both sides; those it began with are among them.
  std::unique_ptr<aspen::Graph> body(std::size_t k, const std::vector<Value*>& results, Region::Operands& operands) {
    const Region& region = sides_[k]->region;
    auto own = region.cut(results, operands);
    auto graph = std::make_unique<aspen::Graph>(k == 0 ? "then" : "else");
    aspen::GraphCopier copier(*graph);
    const std::size_t first = region.inputs().size();
    for (std::size_t i = 0; i < operands.values.size(); ++i) copier.add_input(*own->inputs()[first + i]);
    for (std::size_t i = 0; i < first; ++i) {
      const std::size_t place = operands.place_of(region.inputs()[i]->input(0));
      copier.map(own->inputs()[i].get(), graph->inputs()[place].get());
    }
    for (const auto& op : own->ops()) copier.copy(*op);
    for (const auto& output : own->outputs()) graph->add_output("result", copier[output.value]);
    return graph;
  }

  // Computes both sides. In training no gradient comes back through the inputs of the one that is not chosen: the zeros
  // that arrive at its results may have become NaN on the way, where a derivative is infinite.
  Tensors both(const std::string& obstacle) {
    if (!written_.empty()) {
      throw aspen::UserError(
          "[cond] a body writes to a tensor outside of it, which may happen only where it is chosen, but cannot be "
          "kept "
          "apart from the rest of the model: {}. Return what the tensor is to hold instead.{}",
          obstacle, recorder_.where());
    }
    say("cond", "both bodies are computed", obstacle);
    for (std::size_t k = 0; k < sides_.size(); ++k) guard_inputs(k);
    Tensors results;
    for (std::size_t i = 0; i < sides_[0]->tensors.size(); ++i) {
      results.push_back(at::where(condition_, sides_[0]->tensors[i], sides_[1]->tensors[i]));
    }
    return results;
  }

  void guard_inputs(std::size_t k) {
    if (!recorder_.training()) return;
    for (Op* input : sides_[k]->region.inputs()) {
      Value* value = input->input(0);
      if (!aspen::is_floating(value->dtype())) continue;
      recorder_.record("cond", {}, [&] {
        aspen::Builder& b = recorder_.b;
        Value* condition = recorder_.value_of(condition_);
        b.before = input;
        Value* kept = b.make("detach", {value});
        input->set_input(0, k == 0 ? aspen::build::select(b, condition, value, kept)
                                   : aspen::build::select(b, condition, kept, value));
        b.before = nullptr;
        return Tensors{};
      });
    }
  }

  Recorder& recorder_;
  at::Tensor condition_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::vector<Written> written_;
};

}  // namespace

Tensors record_loop(Recorder& recorder, std::int64_t count, const Turn& turn, const Tensors& inputs) {
  Region region(recorder, "for_loop", /*runs_always=*/true);
  Tensors values = turn(region.begin(inputs));
  const std::vector<Value*> results = region.end(values);
  std::string obstacle = region.obstacle();
  if (obstacle.empty() && !region.writes().empty()) obstacle = "it writes to a tensor outside of it";
  if (!obstacle.empty()) {
    // What has been recorded is the first turn.
    say("for_loop", "the turns are recorded one after the other", obstacle);
    for (std::int64_t i = 1; i < count; ++i) values = turn(values);
    return values;
  }
  return recorder.record("for_loop", inputs, [&] {
    Op* loop = emit_loop(recorder, count, region, results);
    region.retire();
    Tensors tensors;
    for (std::size_t i = 0; i < results.size(); ++i) {
      tensors.push_back(recorder.wrap(loop->output(i), values[i].scalar_type()));
    }
    return tensors;
  });
}

Tensors record_cond(Recorder& recorder, const at::Tensor& condition, const Branch& yes, const Branch& no,
                    const std::function<void(const Tensors&, const Tensors&)>& check) {
  return BranchRecorder(recorder, condition).run(yes, no, check);
}

}  // namespace poptorch
