#include "aspen/compiler/placement/narrow_inputs.h"

#include <map>

#include "aspen/compiler/ir/builder.h"
#include "aspen/ops/cast/cast.h"

namespace aspen {
namespace {

class InputNarrower {
 public:
  explicit InputNarrower(Graph& graph) : graph_(graph), b_(graph) {}

  void run() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      if (!graph_.is_wide_input(i)) continue;
      graph_.widen_input(i);
      made_.emplace(graph_.inputs()[i].get(), ByTask());
    }
    if (made_.empty()) return;
    for (const auto& op : graph_.ops()) {
      for (std::size_t i = 0; i < op->num_inputs(); ++i) {
        const auto found = made_.find(op->input(i));
        if (found == made_.end() || op->def().does_read_wide(i)) continue;
        op->set_input(i, for_reader(op->input(i), found->second, *op));
      }
    }
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      Value* value = graph_.outputs()[i].value;
      const auto found = made_.find(value);
      if (found != made_.end()) graph_.set_output(i, for_output(value, found->second));
    }
  }

 private:
  using ByTask = std::map<std::int64_t, Op*>;

  // Before the first op of the task that reads it, and of the forward pass if one of its readers is.
  Value* for_reader(Value* input, ByTask& made, Op& reader) {
    Op*& narrow = made[reader.task];
    if (narrow == nullptr) {
      b_.like(reader);
      narrow = emit(input, &reader, reader.task);
    }
    narrow->backward = narrow->backward && reader.backward;
    return narrow->output();
  }

  // Given by the first task that reads it anyway.
  Value* for_output(Value* input, ByTask& made) {
    if (made.empty()) {
      b_.location = {};
      b_.placement = {.device = graph_.tasks[0].device, .stage = graph_.tasks[0].stage};
      b_.section = Section::kStep;
      b_.backward = b_.no_grad = false;
      made[0] = emit(input, graph_.ops().empty() ? nullptr : graph_.ops().front().get(), 0);
    }
    return made.begin()->second->output();
  }

  Op* emit(Value* input, Op* before, std::int64_t task) {
    b_.before = before;
    Op* narrow = b_.emit("narrow", {input}, NarrowAttrs{input->name()});
    narrow->task = task;
    return narrow;
  }

  Graph& graph_;
  Builder b_;
  std::map<const Value*, ByTask> made_;  // by input; looked up only
};

}  // namespace

void narrow_inputs(Graph& graph, const PassContext&) { InputNarrower(graph).run(); }

}  // namespace aspen
