#include "aspen/compiler/placement/overlap_io.h"

#include <algorithm>
#include <map>
#include <optional>

#include "aspen/base/error.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/placement/clone.h"
#include "aspen/ops/transfer/transfer.h"

namespace aspen {
namespace {

bool is_input(const Value& value) { return value.producer() == nullptr && value.variable() == nullptr; }

class IoOverlapper {
 public:
  IoOverlapper(Graph& graph, std::int64_t prefetch_depth) : graph_(graph), b_(graph), prefetch_(prefetch_depth) {}

  void run() {
    if (brings_inputs()) {
      add_input_task();
      bring_inputs();
    }
    if (!takes_outputs()) return;
    add_output_task();
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (graph_.outputs()[i].overlapped) graph_.set_output(i, sent_out(*graph_.outputs()[i].value));
    }
  }

 private:
  bool takes_outputs() const {
    const auto& outputs = graph_.outputs();
    return std::any_of(outputs.begin(), outputs.end(), [](const Graph::Output& output) { return output.overlapped; });
  }

  // Inputs to bring: overlapped ones in use, and those that leave again as overlapped outputs.
  bool brings_inputs() const {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      if (graph_.is_overlapped_input(i) && !graph_.inputs()[i]->users().empty()) return true;
    }
    return std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                       [](const Graph::Output& output) { return output.overlapped && is_input(*output.value); });
  }

  std::int64_t new_device() const {
    std::int64_t highest = 0;
    for (const GraphTask& task : graph_.tasks) highest = std::max(highest, task.device);
    return highest + 1;
  }

  std::int64_t add_lane(std::int64_t device, std::int64_t depth) {
    graph_.lanes.push_back({.device = device, .depth = depth});
    return static_cast<std::int64_t>(graph_.lanes.size()) - 1;
  }

  void insert_task(std::int64_t place, GraphTask task) {
    graph_.tasks.insert(graph_.tasks.begin() + place, std::move(task));
    for (const auto& op : graph_.ops()) op->task += op->task >= place ? 1 : 0;
  }

  void add_input_task() {
    std::int64_t device = new_device();
    insert_task(0, {.name = "inputs", .device = device, .lane = add_lane(device, 1)});
    has_input_task_ = true;
  }

  void add_output_task() {
    auto is_update = [](const GraphTask& task) { return task.section == Section::kUpdate; };
    auto place = std::find_if(graph_.tasks.begin(), graph_.tasks.end(), is_update) - graph_.tasks.begin();
    std::int64_t device = new_device();
    output_lane_ = add_lane(device, 1 + prefetch_);
    insert_task(place, {.name = "outputs", .device = device, .lane = output_lane_});
  }

  // One send per lane that uses an input, into the lane that receives for it.
  void bring_inputs() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      if (!graph_.is_overlapped_input(i)) continue;
      Value* input = graph_.inputs()[i].get();
      std::vector<Op*> users = input->users();
      std::map<std::int64_t, Value*> arrived;  // by lane of the reader
      for (Op* user : users) {
        std::int64_t lane = graph_.tasks[user->task].lane;
        Value*& value = arrived[lane];
        if (value == nullptr) value = brought(input, receiving_lane(lane));
        redirect(*user, input, value);
      }
    }
  }

  // As deep as the lane it serves, so that it holds up nobody there, and deeper by what comes early.
  std::int64_t receiving_lane(std::int64_t lane) {
    auto [found, is_new] = receiving_lanes_.emplace(lane, 0);
    if (is_new) found->second = add_lane(graph_.lanes[lane].device, graph_.lanes[lane].depth + prefetch_);
    return found->second;
  }

  Value* brought(Value* input, std::int64_t lane) { return emit_first("send", input, SendAttrs{lane}, 0); }

  Value* sent_out(Value& value) {
    if (is_input(value)) return brought(&value, output_lane_);
    if (value.variable() != nullptr) return sent_out(*value.variable());
    Op* producer = value.producer();
    b_.like(*producer);
    b_.before = producer;
    Op* send = b_.emit("send", {&value}, SendAttrs{output_lane_});
    send->task = producer->task;
    graph_.move_before(producer, send);
    return send->output();
  }

  // What the variable held when the micro-batch began, sent by the task that assigns it or else by one that uses it.
  Value* sent_out(Variable& variable) {
    Value* value = variable.value.get();
    std::int64_t task = task_for(*value);
    Value* contents = variable.off_device ? emit_first("load", value, NoAttrs{}, task) : value;
    Value* result = emit_first("send", contents, SendAttrs{output_lane_}, task);
    if (variable.off_device) graph_.move_before(contents->producer(), result->producer());
    return result;
  }

  std::int64_t task_for(const Value& variable) const {
    std::optional<std::int64_t> first_use;
    for (const Op* user : variable.users()) {
      if (user->section != Section::kStep) continue;
      if (user->is("assign") && user->input(0) == &variable) return user->task;
      first_use = std::min(first_use.value_or(user->task), user->task);
    }
    return first_use.value_or(has_input_task_ ? 1 : 0);  // the first task that computes
  }

  // Ahead of all other ops; the schedule knows its place in the task.
  template <class A>
  Value* emit_first(const char* name, Value* input, A attrs, std::int64_t task) {
    b_.location = {};
    b_.placement = {.device = graph_.tasks[task].device, .stage = graph_.tasks[task].stage};
    b_.section = Section::kStep;
    b_.backward = false;
    b_.before = graph_.ops().empty() ? nullptr : graph_.ops().front().get();
    Op* op = b_.emit(name, {input}, attrs);
    op->task = task;
    return op->output();
  }

  Graph& graph_;
  Builder b_;
  std::int64_t prefetch_;
  bool has_input_task_ = false;
  std::int64_t output_lane_ = -1;
  std::map<std::int64_t, std::int64_t> receiving_lanes_;  // by lane of the readers
};

}  // namespace

void overlap_io(Graph& graph, const PassContext& context) {
  std::int64_t depth = context.options.prefetch_depth;
  if (depth < 0) {
    throw UserError("the prefetch depth is {}; overlapped inputs arrive 0 or more micro-batches early.", depth);
  }
  IoOverlapper(graph, depth).run();
}

bool is_arrival(const Op& op) { return op.is("send") && is_input(*op.input(0)); }

std::int64_t task_after_send(const Graph& graph, const Op& op) {
  if (!op.is("send")) return op.task;
  for (auto task = op.task; task < static_cast<std::int64_t>(graph.tasks.size()); ++task) {
    if (graph.tasks[task].lane == op.attrs<SendAttrs>().lane) return task;
  }
  throw InternalError("a result of the graph was sent to a lane without tasks");
}

}  // namespace aspen
