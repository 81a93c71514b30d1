#include "aspen/compiler/memory/plan.h"

#include <algorithm>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/memory/offsets.h"

namespace aspen {
namespace {

// One buffer: a set of values that share bytes. Buffers merge while sharing is found; `Buffers::root` follows.
struct Buffer {
  std::size_t bytes = 0;
  Arena arena = Arena::kScratch;
  std::size_t offset = 0;            // known from the start outside the scratch arena
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

std::size_t aligned(std::size_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

class SectionPlanner {
 public:
  SectionPlanner(const Graph& graph, Section section, const std::function<OpDemand(const Op&)>& demand,
                 MemoryPlan& plan)
      : graph_(graph), section_(section), demand_(demand), plan_(plan), buffer_of_(graph.num_values(), kNone) {}

  SectionPlan run() {
    add_variables();
    if (section_ == Section::kStep) add_inputs();
    add_ops();
    if (section_ == Section::kStep) add_outputs();
    bind_assigned_values();
    save_overwritten_variables();
    reuse_in_place();
    place();
    return emit();
  }

  BufferRef ref(const Value* value) const { return ref(buffer_of_[value->id()]); }

  // What a graph output reads: the value itself, or the saved contents of a variable written during the step.
  BufferRef output_ref(const Value* value) const { return ref(read_at(value, end())); }

 private:
  struct Call {
    const Op* op;
    OpDemand demand;
    bool is_alias, is_assign;
    std::size_t workspace = kNone;
  };
  struct Assignment {
    std::int64_t call = 0;      // position of the assign
    bool is_copy = true;        // false: the value is produced in the variable's buffer
    std::size_t saved = kNone;  // copy of the old contents, taken just before the assign
  };

  std::int64_t end() const { return static_cast<std::int64_t>(calls_.size()); }

  void add_variables() {
    const auto& variables = graph_.variables();
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const Value* value = variables[i]->value.get();
      buffer_of_[value->id()] = buffers_.add({.bytes = value->type().bytes(),
                                              .arena = Arena::kVariables,
                                              .offset = plan_.variables[i].offset,
                                              .first = -1,
                                              .last = -1,
                                              .value = value});
    }
    num_variables_ = variables.size();
    assignments_.resize(num_variables_, {.call = -1});
  }

  void add_inputs() {
    for (const auto& input : graph_.inputs()) {
      buffer_of_[input->id()] =
          buffers_.add({.bytes = input->type().bytes(), .first = -1, .last = -1, .value = input.get()});
    }
  }

  void add_ops() {
    for (const auto& op : graph_.ops()) {
      if (op->section != section_) continue;
      Call call{
          .op = op.get(), .demand = demand_(*op), .is_alias = op->def().is_alias(), .is_assign = op->is("assign")};
      if (call.demand.is_constant) {
        add_constant(*op);
        continue;
      }
      std::int64_t now = end();
      if (call.is_alias) {
        buffer_of_[op->output()->id()] = buffer_of_[op->input(0)->id()];
        continue;
      }
      for (std::size_t i = call.is_assign ? 1 : 0; i < op->num_inputs(); ++i) {
        if (op->input(i) != nullptr) use(op->input(i), now);
      }
      for (std::size_t i = 0; i < op->num_outputs(); ++i) {
        const Value* output = op->output(i);
        buffer_of_[output->id()] = buffers_.add(
            {.bytes = output->type().bytes(), .first = now, .last = now, .value = output, .producer = op.get()});
      }
      if (call.demand.workspace_bytes != 0) {
        call.workspace = buffers_.add({.bytes = call.demand.workspace_bytes, .first = now, .last = now});
      }
      if (call.is_assign) assignments_[buffer_of_[op->input(0)->id()]].call = now;
      calls_.push_back(call);
    }
  }

  void add_constant(const Op& op) {
    const Value* value = op.output();
    std::size_t offset = plan_.constant_bytes;
    plan_.constant_bytes += aligned(value->type().bytes());
    buffer_of_[value->id()] =
        buffers_.add({.bytes = value->type().bytes(), .arena = Arena::kConstants, .offset = offset, .value = value});
    plan_.constants.emplace_back(&op, ref(value));
  }

  void use(const Value* value, std::int64_t now) {
    std::size_t index = buffer_of_[value->id()];
    if (index == kNone) throw InternalError("value %{} is read before it is made", value->id());
    buffers_[index].last = std::max(buffers_[index].last, now);
  }

  void add_outputs() {
    for (const auto& output : graph_.outputs()) use(output.value, end());
  }

  // Lets the producer of an assigned value write into the variable, when every read of the old contents comes
  // before, or is the producer's own and it may work in place.
  void bind_assigned_values() {
    for (std::size_t v = 0; v < num_variables_; ++v) {
      Assignment& assignment = assignments_[v];
      if (assignment.call < 0) continue;
      const Op& assign = *calls_[assignment.call].op;
      std::size_t index = buffers_.root(buffer_of_[assign.input(1)->id()]);
      if (index == v) {
        assignment.is_copy = false;  // the variable assigned to itself
        continue;
      }
      const Buffer& value = buffers_[index];
      const Buffer& variable = buffers_[v];
      if (value.arena != Arena::kScratch || value.producer == nullptr || value.bytes != variable.bytes) continue;
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
      if (op.input(i) == nullptr || buffers_.root(buffer_of_[op.input(i)->id()]) != buffer) continue;
      ++uses;
      port = i;
    }
    if (uses != 1) return false;
    for (auto [to, from] : op.def().inplace_pairs()) {
      if (to == output.index() && from == port) return true;
    }
    return false;
  }

  // A variable that is copied into while its old contents are still wanted keeps them in a buffer of its own.
  void save_overwritten_variables() {
    for (std::size_t v = 0; v < num_variables_; ++v) {
      Assignment& assignment = assignments_[v];
      if (assignment.call < 0 || !assignment.is_copy || buffers_[v].last <= assignment.call) continue;
      assignment.saved = buffers_.add({.bytes = buffers_[v].bytes, .first = assignment.call, .last = buffers_[v].last});
    }
  }

  void reuse_in_place() {
    for (std::int64_t now = 0; now < end(); ++now) {
      const Op& op = *calls_[now].op;
      std::vector<std::size_t> taken;
      for (auto [to, from] : op.def().inplace_pairs()) {
        if (from >= op.num_inputs() || op.input(from) == nullptr || to >= op.num_outputs()) continue;
        std::size_t input = buffers_.root(buffer_of_[op.input(from)->id()]);
        std::size_t output = buffers_.root(buffer_of_[op.output(to)->id()]);
        const Buffer& source = buffers_[input];
        const Buffer& target = buffers_[output];
        if (source.arena != Arena::kScratch || target.arena != Arena::kScratch) continue;
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

  void place() {
    std::vector<Lifetime> lifetimes;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (!buffers_.is_root(i) || buffers_[i].arena != Arena::kScratch) continue;
      lifetimes.push_back({.bytes = buffers_[i].bytes, .first = buffers_[i].first, .last = buffers_[i].last});
      indices.push_back(i);
    }
    plan_.scratch_bytes = std::max(plan_.scratch_bytes, assign_offsets(lifetimes));
    for (std::size_t k = 0; k < indices.size(); ++k) buffers_[indices[k]].offset = lifetimes[k].offset;
  }

  BufferRef ref(std::size_t index) const {
    const Buffer& buffer = buffers_[index];
    return {.arena = buffer.arena, .offset = buffer.offset, .bytes = buffer.bytes};
  }

  // The buffer that holds a value at a call: late readers of a variable find its saved contents.
  std::size_t read_at(const Value* value, std::int64_t now) const {
    std::size_t index = buffer_of_[value->id()];
    bool is_old_contents = index < num_variables_;  // the variable's value or an alias of it
    if (is_old_contents && assignments_[index].saved != kNone && now > assignments_[index].call) {
      return assignments_[index].saved;
    }
    return index;
  }

  SectionPlan emit() const {
    SectionPlan result;
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
      for (const Value* output : call.op->outputs()) planned.outputs.push_back(ref(output));
      if (call.workspace != kNone) planned.workspace = ref(call.workspace);
      result.calls.push_back(std::move(planned));
    }
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const Buffer& buffer = buffers_[i];
      if (!buffers_.is_root(i) || buffer.arena != Arena::kScratch) continue;
      result.buffers.push_back({.value = buffer.value, .place = ref(i), .first = buffer.first, .last = buffer.last});
    }
    return result;
  }

  void emit_assign(const Call& call, std::int64_t now, SectionPlan& result) const {
    std::size_t variable = buffer_of_[call.op->input(0)->id()];
    const Assignment& assignment = assignments_[variable];
    if (!assignment.is_copy) return;
    auto copy = [&](std::size_t from, std::size_t to) {
      result.calls.push_back({.op = call.op, .is_copy = true, .inputs = {ref(from)}, .outputs = {ref(to)}});
    };
    if (assignment.saved != kNone) copy(variable, assignment.saved);
    copy(read_at(call.op->input(1), now), variable);
  }

  const Graph& graph_;
  Section section_;
  const std::function<OpDemand(const Op&)>& demand_;
  MemoryPlan& plan_;
  Buffers buffers_;
  std::vector<std::size_t> buffer_of_;   // by value id
  std::size_t num_variables_ = 0;        // buffers [0, num_variables_) are the variables, in graph order
  std::vector<Assignment> assignments_;  // per variable
  std::vector<Call> calls_;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const std::function<OpDemand(const Op&)>& demand) {
  MemoryPlan plan;
  for (const auto& variable : graph.variables()) {
    std::size_t bytes = variable->value->type().bytes();
    plan.variables.push_back({.arena = Arena::kVariables, .offset = plan.variable_bytes, .bytes = bytes});
    plan.variable_bytes += aligned(bytes);
  }
  SectionPlanner step(graph, Section::kStep, demand, plan);
  plan.step = step.run();
  for (const auto& input : graph.inputs()) plan.inputs.push_back(step.ref(input.get()));
  for (const auto& output : graph.outputs()) plan.outputs.push_back(step.output_ref(output.value));
  plan.update = SectionPlanner(graph, Section::kUpdate, demand, plan).run();
  return plan;
}

}  // namespace aspen
