#include "aspen/compiler/memory/task_planner.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/memory/offsets.h"
#include "aspen/compiler/placement/overlap_io.h"

namespace aspen {
namespace {

// One buffer: a set of values that share bytes. Buffers merge while sharing is found; `Buffers::root` follows.
struct Buffer {
  std::size_t bytes = 0;
  BufferRef place;                   // known from the start outside the scratch arena
  std::int64_t first = 0, last = 0;  // calls
  const Value* value = nullptr;
  const Op* producer = nullptr;  // op that writes it first; nullptr: a graph input
};

class Buffers {
 public:
  std::size_t add(Buffer buffer) {
    buffers_.push_back(buffer);
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }
  std::size_t root(std::size_t i) const {
    while (parents_[i] != i) i = parents_[i];
    return i;
  }
  Buffer& operator[](std::size_t i) { return buffers_[root(i)]; }
  const Buffer& operator[](std::size_t i) const { return buffers_[root(i)]; }
  std::size_t size() const { return buffers_.size(); }
  bool is_root(std::size_t i) const { return parents_[i] == i; }
  void merge(std::size_t from, std::size_t into) { parents_[root(from)] = root(into); }

 private:
  std::vector<Buffer> buffers_;
  std::vector<std::size_t> parents_;
};

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

class TaskPlanner {
 public:
  TaskPlanner(const Graph& graph, std::int64_t task, const OpDemands& demands, const Residences& residences)
      : graph_(graph), task_(task), demands_(demands), residences_(residences),
        device_(static_cast<std::size_t>(graph.tasks[task].device)) {}

  TaskPlan run(const std::vector<const Op*>& ops, std::size_t& scratch_bytes) {
    add_variables(ops);
    add_inputs();
    for (const Op* op : ops) add(*op);
    for (std::size_t i : residences_.outputs_of(task_)) use(graph_.outputs()[i].value, end());
    bind_assigned_values();
    save_overwritten_variables();
    reuse_in_place();
    write_outputs_in_place();
    place(scratch_bytes);
    return emit();
  }

 private:
  struct Call {
    const Op* op;
    bool is_assign;
    std::size_t workspace = kNone;
  };
  struct Assignment {
    std::int64_t call = -1;     // position of the assign
    bool is_copy = true;        // false: the value is produced in the variable's buffer
    std::size_t saved = kNone;  // copy of the old contents, taken just before the assign
  };

  std::int64_t end() const { return static_cast<std::int64_t>(calls_.size()); }

  // Whether an op becomes a call.
  bool is_called(const Op& op) const {
    return !demands_.at(&op).is_constant && !op.def().is_alias() && !is_arrival(op);
  }

  // Those the task touches: there may be as many tasks as variables.
  void add_variables(const std::vector<const Op*>& ops) {
    std::set<std::size_t> touched;  // in the order of the graph
    auto touch = [&](const Value* value) {
      const Variable* variable = value == nullptr ? nullptr : residences_.root(value)->variable();
      if (variable != nullptr) touched.insert(residences_.variable_index(variable));
    };
    for (const Op* op : ops) {
      if (!is_called(*op)) continue;
      for (const Value* input : op->inputs()) touch(input);
    }
    for (std::size_t i : residences_.outputs_of(task_)) touch(graph_.outputs()[i].value);
    for (std::size_t index : touched) {
      const Value* value = graph_.variables()[index]->value.get();
      buffer_of_[value->id()] = buffers_.add({.bytes = value->type().bytes(),
                                              .place = {.arena = Arena::kVariables},
                                              .first = -1,
                                              .last = -1,
                                              .value = value});
    }
    num_variables_ = touched.size();
    assignments_.resize(num_variables_);
  }

  void add_inputs() {
    for (std::size_t i : residences_.inputs_of(task_)) {
      const Value* input = graph_.inputs()[i].get();
      buffer_of_[input->id()] = buffers_.add({.bytes = input->type().bytes(),
                                              .place = residences_.find(input, task_).value_or(scratch()),
                                              .first = -1,
                                              .last = -1,
                                              .value = input});
    }
  }

  BufferRef scratch() const { return {.arena = Arena::kScratch, .owner = device_}; }

  void add(const Op& op) {
    if (is_arrival(op)) return add_arrival(op);
    if (!is_called(op)) return;
    const OpDemand& demand = demands_.at(&op);
    Call call{.op = &op, .is_assign = op.is("assign")};
    std::int64_t now = end();
    for (std::size_t i = 0; i < op.num_inputs(); ++i) {
      if (op.input(i) == nullptr) continue;
      if (call.is_assign && i == 0) {
        resolve(op.input(0));
      } else {
        use(op.input(i), now);
      }
    }
    for (const Value* output : op.outputs()) {
      buffer_of_[output->id()] = buffers_.add({.bytes = output->type().bytes(),
                                               .place = residences_.find(output, task_).value_or(scratch()),
                                               .first = now,
                                               .last = now,
                                               .value = output,
                                               .producer = &op});
    }
    if (demand.workspace_bytes != 0) {
      call.workspace = buffers_.add({.bytes = demand.workspace_bytes, .place = scratch(), .first = now, .last = now});
    }
    if (call.is_assign) assignments_[resolve(op.input(0))].call = now;
    calls_.push_back(call);
  }

  // The executor copies the input straight into the slot.
  void add_arrival(const Op& op) {
    const Value* output = op.output();
    buffer_of_[output->id()] = buffers_.add({.bytes = output->type().bytes(),
                                             .place = *residences_.find(output, task_),
                                             .first = -1,
                                             .last = -1,
                                             .value = output});
    arrivals_.push_back(&op);
  }

  // The buffer of a value, found on first sight when it lies outside the scratch memory.
  std::size_t resolve(const Value* value) {
    const Value* root = residences_.root(value);
    std::size_t& index = buffer_of_.try_emplace(root->id(), kNone).first->second;
    if (root->variable() != nullptr) {
      if (buffers_[index].place.bytes == 0) buffers_[index].place = *residences_.find(root, task_);
    } else if (index == kNone) {
      auto place = residences_.find(root, task_);
      if (!place) throw InternalError("value %{} is read before it is made", value->id());
      index = buffers_.add({.bytes = root->type().bytes(), .place = *place, .first = -1, .last = -1, .value = root});
    }
    return index;
  }

  void use(const Value* value, std::int64_t now) {
    Buffer& buffer = buffers_[resolve(value)];
    buffer.last = std::max(buffer.last, now);
  }

  std::size_t index_of(const Value* value) const { return buffer_of_.at(residences_.root(value)->id()); }

  // Lets the producer of an assigned value write into the variable, when every read of the old contents comes
  // before, or is the producer's own and it may work in place.
  void bind_assigned_values() {
    for (std::size_t v = 0; v < num_variables_; ++v) {
      Assignment& assignment = assignments_[v];
      if (assignment.call < 0) continue;
      const Op& assign = *calls_[assignment.call].op;
      std::size_t index = buffers_.root(index_of(assign.input(1)));
      if (index == v) {
        assignment.is_copy = false;  // the variable assigned to itself
        continue;
      }
      const Buffer& value = buffers_[index];
      const Buffer& variable = buffers_[v];
      bool may_bind = value.place.arena == Arena::kScratch && variable.place.arena == Arena::kVariables;
      if (!may_bind || value.producer == nullptr || value.bytes != variable.bytes) continue;
      bool is_free = variable.last < value.first;
      bool is_inplace = variable.last == value.first && may_overwrite(*value.producer, *value.value, v);
      if (!is_free && !is_inplace) continue;
      buffers_.merge(index, v);
      assignment.is_copy = false;
    }
  }

  // Whether the op declares that `output` may take over the buffer of an input, and reads it through no other input.
  bool may_overwrite(const Op& op, const Value& output, std::size_t buffer) const {
    std::size_t uses = 0, port = 0;
    for (std::size_t i = 0; i < op.num_inputs(); ++i) {
      if (op.input(i) == nullptr || buffers_.root(index_of(op.input(i))) != buffer) continue;
      ++uses;
      port = i;
    }
    if (uses != 1) return false;
    for (auto [to, from] : op.inplace_pairs()) {
      if (to == output.index() && from == port) return true;
    }
    return false;
  }

  // A variable that is copied into while its old contents are still wanted keeps them in a buffer of its own.
  void save_overwritten_variables() {
    for (std::size_t v = 0; v < num_variables_; ++v) {
      Assignment& assignment = assignments_[v];
      if (assignment.call < 0 || !assignment.is_copy || buffers_[v].last <= assignment.call) continue;
      assignment.saved = buffers_.add(
          {.bytes = buffers_[v].bytes, .place = scratch(), .first = assignment.call, .last = buffers_[v].last});
    }
  }

  void reuse_in_place() {
    for (std::int64_t now = 0; now < end(); ++now) {
      const Op& op = *calls_[now].op;
      std::vector<std::size_t> taken;
      for (auto [to, from] : op.inplace_pairs()) {
        if (from >= op.num_inputs() || op.input(from) == nullptr || to >= op.num_outputs()) continue;
        std::size_t input = buffers_.root(index_of(op.input(from)));
        std::size_t output = buffers_.root(index_of(op.output(to)));
        const Buffer& source = buffers_[input];
        const Buffer& target = buffers_[output];
        if (source.place.arena != Arena::kScratch || target.place.arena != Arena::kScratch) continue;
        if (source.last != now || target.first != now || source.bytes != target.bytes) continue;
        if (std::find(taken.begin(), taken.end(), input) != taken.end()) continue;
        if (!may_overwrite(op, *op.output(to), input)) continue;
        std::int64_t last = target.last;
        buffers_.merge(output, input);
        buffers_[input].last = last;
        taken.push_back(input);
      }
    }
  }

  // The first output that shows a buffer has it in its own memory; what is written there before it does no harm.
  void write_outputs_in_place() {
    for (std::size_t i : residences_.outputs_of(task_)) {
      const Value* value = graph_.outputs()[i].value;
      Buffer& buffer = buffers_[read_at(value, end())];
      if (buffer.place.arena != Arena::kScratch || buffer.producer == nullptr) continue;
      if (buffer.bytes == value->type().bytes()) buffer.place = {.arena = Arena::kOutputs, .owner = i};
    }
  }

  void place(std::size_t& scratch_bytes) {
    std::vector<Lifetime> lifetimes;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (!buffers_.is_root(i) || buffers_[i].place.arena != Arena::kScratch) continue;
      lifetimes.push_back({.bytes = buffers_[i].bytes, .first = buffers_[i].first, .last = buffers_[i].last});
      indices.push_back(i);
    }
    scratch_bytes = std::max(scratch_bytes, assign_offsets(lifetimes));
    for (std::size_t k = 0; k < indices.size(); ++k) buffers_[indices[k]].place.offset = lifetimes[k].offset;
  }

  BufferRef ref(std::size_t index) const {
    BufferRef place = buffers_[index].place;
    place.bytes = buffers_[index].bytes;
    return place;
  }

  // The buffer that holds a value at a call: late readers of a variable find its saved contents.
  std::size_t read_at(const Value* value, std::int64_t now) const {
    std::size_t index = index_of(value);
    bool is_old_contents = index < num_variables_;  // the variable's value or an alias of it
    if (is_old_contents && assignments_[index].saved != kNone && now > assignments_[index].call) {
      return assignments_[index].saved;
    }
    return index;
  }

  TaskPlan emit() const {
    TaskPlan result;
    for (std::size_t i : residences_.inputs_of(task_)) {
      result.inputs.push_back({.input = i, .to = ref(index_of(graph_.inputs()[i].get()))});
    }
    for (const Op* op : arrivals_) {
      result.inputs.push_back(
          {.input = residences_.input_index(residences_.root(op->input(0))), .to = ref(index_of(op->output()))});
    }
    for (std::int64_t now = 0; now < end(); ++now) {
      const Call& call = calls_[now];
      if (call.is_assign) {
        emit_assign(call, now, result);
        continue;
      }
      PlannedCall planned{.op = call.op};
      for (const Value* input : call.op->inputs()) {
        planned.inputs.push_back(input == nullptr ? BufferRef{.absent = true} : ref(read_at(input, now)));
      }
      for (const Value* output : call.op->outputs()) planned.outputs.push_back(ref(index_of(output)));
      if (call.workspace != kNone) planned.workspace = ref(call.workspace);
      result.calls.push_back(std::move(planned));
    }
    // An output may be the old contents of a variable that the task assigns.
    for (std::size_t i : residences_.outputs_of(task_)) {
      result.outputs.push_back({.output = i, .from = ref(read_at(graph_.outputs()[i].value, end()))});
    }
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const Buffer& buffer = buffers_[i];
      if (!buffers_.is_root(i) || buffer.place.arena != Arena::kScratch) continue;
      result.buffers.push_back({.value = buffer.value, .place = ref(i), .first = buffer.first, .last = buffer.last});
    }
    return result;
  }

  void emit_assign(const Call& call, std::int64_t now, TaskPlan& result) const {
    std::size_t variable = index_of(call.op->input(0));
    const Assignment& assignment = assignments_[variable];
    if (!assignment.is_copy) return;
    auto copy = [&](std::size_t from, std::size_t to) {
      result.calls.push_back({.op = call.op, .is_copy = true, .inputs = {ref(from)}, .outputs = {ref(to)}});
    };
    if (assignment.saved != kNone) copy(variable, assignment.saved);
    copy(read_at(call.op->input(1), now), variable);
  }

  const Graph& graph_;
  std::int64_t task_;
  const OpDemands& demands_;
  const Residences& residences_;
  std::size_t device_;
  Buffers buffers_;
  std::unordered_map<std::int64_t, std::size_t> buffer_of_;  // by value id, of roots
  std::size_t num_variables_ = 0;        // buffers [0, num_variables_) are the variables, in graph order
  std::vector<Assignment> assignments_;  // per variable
  std::vector<Call> calls_;
  std::vector<const Op*> arrivals_;
};

}  // namespace

TaskPlan plan_task(const Graph& graph, std::int64_t task, const std::vector<const Op*>& ops, const OpDemands& demands,
                   const Residences& residences, std::size_t& scratch_bytes) {
  return TaskPlanner(graph, task, demands, residences).run(ops, scratch_bytes);
}

}  // namespace aspen
