#include "mutate_program.h"

#include <algorithm>
#include <array>

#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/program_file/stored_body.h"

namespace aspen::testing {
namespace {

std::size_t below(std::size_t count, Random& random) { return count == 0 ? 0 : random() % count; }
bool one_in(std::size_t count, Random& random) { return below(count, random) == 0; }

std::int64_t other_number(std::int64_t number, Random& random) {
  constexpr std::array<std::int64_t, 12> kNumbers = {0, 1, 2, 3, 5, 16, 100, -1, -2, 1 << 20, 1ll << 31, 1ll << 62};
  const auto bits = static_cast<std::uint64_t>(number);  // which may wrap
  switch (below(5, random)) {
    case 0: return static_cast<std::int64_t>(bits + 1);
    case 1: return static_cast<std::int64_t>(bits - 1);
    case 2: return static_cast<std::int64_t>(-bits);
    case 3: return static_cast<std::int64_t>(bits * 2);
    default: return kNumbers[below(kNumbers.size(), random)];
  }
}

// -- graphs that ops own ----------------------------------------------------------------------------------------------
StoredBody changed(StoredBody body, Random& random);

// -- attributes -------------------------------------------------------------------------------------------------------
// Changes one of the fields, the chosen one.
class AttributeChange final : public AttrVisitor {
 public:
  AttributeChange(std::size_t chosen, Random& random) : chosen_(chosen), random_(random) {}
  void operator()(const char*, std::int64_t& field) override {
    if (is_chosen()) field = other_number(field, random_);
  }
  void operator()(const char*, double& field) override {
    constexpr std::array<double, 6> kNumbers = {0, -1, 1e300, -1e-300, 0.5, 1e9};
    if (is_chosen()) field = kNumbers[below(kNumbers.size(), random_)];
  }
  void operator()(const char*, bool& field) override {
    if (is_chosen()) field = !field;
  }
  void operator()(const char*, DType& field) override {
    if (is_chosen()) field = static_cast<DType>(below(kNumDTypes, random_));
  }
  void operator()(const char*, std::string& field) override {
    constexpr std::array<const char*, 6> kWords = {"", "add", "set", "max", "mean", "f32[2, 3]"};
    if (is_chosen()) field = kWords[below(kWords.size(), random_)];
  }
  void operator()(const char*, std::vector<std::int64_t>& field) override {
    if (!is_chosen()) return;
    if (one_in(4, random_)) field.push_back(static_cast<std::int64_t>(below(4, random_)));
    if (!field.empty() && one_in(4, random_)) field.pop_back();
    if (!field.empty()) {
      auto& number = field[below(field.size(), random_)];
      number = other_number(number, random_);
    }
  }
  void operator()(const char*, std::vector<double>& field) override {
    if (is_chosen()) field.resize(below(5, random_), 0.5);
  }
  void operator()(const char*, Blob& field) override {
    if (is_chosen()) field.bytes = std::make_shared<const std::vector<std::byte>>(below(64, random_));
  }
  void operator()(const char*, std::shared_ptr<HostFunction>&) override { is_chosen(); }
  void operator()(const char*, std::shared_ptr<CustomGradient>&) override { is_chosen(); }
  void operator()(const char*, Body& field) override {
    if (!is_chosen() || field == nullptr) return;
    try {
      field = make_body(changed(stored_body(graph_of(field)), random_));
    } catch (const Error&) {
      // No graph any more: it stays as it was.
    }
  }
  std::size_t num_fields() const { return next_; }

 private:
  bool is_chosen() { return next_++ == chosen_; }

  std::size_t chosen_, next_ = 0;
  Random& random_;
};

void change_attributes(KernelRequest& request, Random& random) {
  AttributeChange counts(~std::size_t{0}, random);
  request.attrs.visited(counts);
  AttributeChange change(below(counts.num_fields(), random), random);
  request.attrs = request.attrs.visited(change);
}

StoredBody changed(StoredBody body, Random& random) {
  if (!body.ops.empty() && one_in(2, random)) {
    StoredOp& op = body.ops[below(body.ops.size(), random)];
    AttributeChange counts(~std::size_t{0}, random);
    op.attrs.visited(counts);
    AttributeChange change(below(counts.num_fields(), random), random);
    op.attrs = op.attrs.visited(change);
  } else if (!body.ops.empty() && one_in(2, random)) {
    auto& inputs = body.ops[below(body.ops.size(), random)].inputs;
    if (!inputs.empty()) inputs[below(inputs.size(), random)] = static_cast<std::int64_t>(below(8, random));
  } else if (!body.outputs.empty() && one_in(2, random)) {
    body.outputs[below(body.outputs.size(), random)] = static_cast<std::int64_t>(below(8, random));
  } else if (!body.inputs.empty()) {
    TensorType& type = body.inputs[below(body.inputs.size(), random)];
    if (!type.shape.empty()) type.shape[below(type.shape.size(), random)] = static_cast<std::int64_t>(below(6, random));
  }
  return body;
}

// -- types and places -------------------------------------------------------------------------------------------------
bool is_small(const TensorType& type) {
  std::int64_t numel = 1;
  for (std::int64_t extent : type.shape) {
    if (extent < 0 || extent > 4096) return false;
    numel *= std::max<std::int64_t>(extent, 1);
    if (numel > 16384) return false;
  }
  return true;
}

// A new place of the right size on the device of the task.
BufferRef new_place(Program& program, std::size_t device, std::size_t bytes) {
  std::size_t& end = program.devices[device].scratch_bytes;
  const std::size_t offset = slot_stride(end);
  end = offset + bytes;
  return {.arena = Arena::kScratch, .owner = device, .offset = offset, .bytes = bytes};
}

void change_type(TensorType& type, Random& random) {
  if (one_in(4, random)) type.dtype = static_cast<DType>(below(kNumDTypes, random));
  if (one_in(8, random)) type.shape.push_back(static_cast<std::int64_t>(below(4, random)));
  if (!type.shape.empty() && one_in(8, random)) type.shape.pop_back();
  if (!type.shape.empty()) {
    auto& extent = type.shape[below(type.shape.size(), random)];
    extent = other_number(extent, random);
  }
}

struct Chosen {
  Instruction* instruction = nullptr;
  std::size_t device = 0;
};

Chosen choose(Program& program, Random& random) {
  std::vector<Chosen> all;
  for (auto* tasks : {&program.step, &program.update}) {
    for (Task& task : *tasks) {
      if (task.device >= program.devices.size()) continue;
      for (Instruction& instruction : task.instructions) {
        if (!instruction.is_copy) all.push_back({&instruction, task.device});
      }
    }
  }
  return all.empty() ? Chosen{} : all[below(all.size(), random)];
}

// The types of an instruction are changed, those that are equal together or one alone, and all of them get new buffers.
void change_types(Program& program, const Chosen& chosen, Random& random) {
  KernelRequest& request = chosen.instruction->request;
  std::vector<TensorType*> types;
  for (KernelInput& input : request.inputs) types.push_back(&input.type);
  for (TensorType& output : request.outputs) types.push_back(&output);
  if (types.empty()) return;
  TensorType* first = types[below(types.size(), random)];
  const TensorType before = *first;
  TensorType after = before;
  change_type(after, random);
  if (!is_small(after)) return;
  const bool in_all = !one_in(3, random);
  for (TensorType* type : types) {
    if (type == first || (in_all && *type == before)) *type = after;
  }
  for (std::size_t i = 0; i < request.inputs.size() && i < chosen.instruction->inputs.size(); ++i) {
    if (!request.inputs[i].present) continue;
    chosen.instruction->inputs[i] = new_place(program, chosen.device, request.inputs[i].type.bytes());
  }
  for (std::size_t i = 0; i < request.outputs.size() && i < chosen.instruction->outputs.size(); ++i) {
    chosen.instruction->outputs[i] = new_place(program, chosen.device, request.outputs[i].bytes());
  }
  if (one_in(2, random)) chosen.instruction->workspace = new_place(program, chosen.device, 8192);
}

// One extent, wherever it stands in the instruction.
void change_extent(Program& program, const Chosen& chosen, Random& random) {
  change_types(program, chosen, random);
  if (one_in(2, random)) change_attributes(chosen.instruction->request, random);
}

void change_op(const Chosen& chosen, Random& random) {
  const auto ops = op_registry().all();
  const OpDef& def = *ops[below(ops.size(), random)];
  if (def.name() == "print") return;  // thousands of lines
  chosen.instruction->request.op = def.name();
  chosen.instruction->request.attrs =
      def.examples().empty() ? def.default_attrs() : def.examples()[below(def.examples().size(), random)].attrs;
}

void change_place(const Chosen& chosen, Random& random) {
  Instruction& instruction = *chosen.instruction;
  std::vector<BufferRef*> places = {&instruction.workspace};
  for (BufferRef& place : instruction.inputs) places.push_back(&place);
  for (BufferRef& place : instruction.outputs) places.push_back(&place);
  BufferRef& place = *places[below(places.size(), random)];
  switch (below(4, random)) {
    case 0:
      place.offset = static_cast<std::size_t>(static_cast<std::int64_t>(place.offset) +
                                              64 * (static_cast<std::int64_t>(below(5, random)) - 2));
      break;
    case 1: place.arena = static_cast<Arena>(below(8, random)); break;
    case 2: place.owner = below(3, random); break;
    default: {
      const std::size_t bytes = place.bytes;
      place = *places[below(places.size(), random)];
      place.bytes = bytes;
    }
  }
}

void change_operands(const Chosen& chosen, Random& random) {
  auto& requested = chosen.instruction->request.inputs;
  auto& places = chosen.instruction->inputs;
  if (requested.empty() || requested.size() != places.size()) return;
  const std::size_t i = below(places.size(), random), j = below(places.size(), random);
  switch (below(3, random)) {
    case 0:
      std::swap(requested[i], requested[j]);
      std::swap(places[i], places[j]);
      break;
    case 1:
      requested.push_back(requested[i]);
      places.push_back(places[i]);
      break;
    default:
      requested.erase(requested.begin() + static_cast<std::ptrdiff_t>(i));
      places.erase(places.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// -- the rest ---------------------------------------------------------------------------------------------------------
void change_task(std::vector<Task>& tasks, Random& random) {
  if (tasks.empty()) return;
  Task& task = tasks[below(tasks.size(), random)];
  switch (below(7, random)) {
    case 0: task.device = below(3, random); break;
    case 1: task.moves = !task.moves; break;
    case 2: task.nanoseconds = one_in(2, random) ? 1e9 : 0; break;
    case 3:
      task.waits.push_back({.task = below(tasks.size(), random),
                            .lag = static_cast<std::int64_t>(below(3, random)),
                            .in_all_replicas = one_in(4, random)});
      break;
    case 4: task.waits.clear(); break;
    case 5: task.instructions.clear(); break;
    default: std::swap(task, tasks[below(tasks.size(), random)]);
  }
}

void change_variable(Program& program, Random& random) {
  if (program.variables.empty()) return;
  ProgramVariable& variable = program.variables[below(program.variables.size(), random)];
  switch (below(8, random)) {
    case 0: variable.sharded = !variable.sharded; break;
    case 1: variable.gathered = !variable.gathered; break;
    case 2: variable.reduced = !variable.reduced; break;
    case 3: variable.grouping.kind = static_cast<ReplicaGrouping::Kind>(below(4, random)); break;
    case 4: variable.grouping.size = below(4, random); break;
    case 5: variable.grouping.returns_all = !variable.grouping.returns_all; break;
    case 6: variable.places.push_back(program.variables[below(program.variables.size(), random)].places[0]); break;
    default: change_type(variable.type, random);
  }
}

void change_program(Program& program, Random& random) {
  switch (below(8, random)) {
    case 0: program.replicas = below(5, random); break;
    case 1: program.training = !program.training; break;
    case 2: program.has_transfers = !program.has_transfers; break;
    case 3: program.checks_floats = !program.checks_floats; break;
    case 4: program.gradient_accumulation = other_number(program.gradient_accumulation, random); break;
    case 5: program.input_grouping.kind = static_cast<ReplicaGrouping::Kind>(below(4, random)); break;
    case 6:
      if (!program.lanes.empty())
        program.lanes[below(program.lanes.size(), random)].depth = static_cast<std::int64_t>(below(5, random));
      break;
    default: program.devices.emplace_back();
  }
}

}  // namespace

void mutate_program(Program& program, Random& random) {
  for (std::size_t i = 0, count = 1 + below(3, random); i < count; ++i) {
    const Chosen chosen = choose(program, random);
    const std::size_t kind = below(16, random);
    if (kind < 12 && chosen.instruction != nullptr) {
      switch (kind) {
        case 0:
        case 1:
        case 2: change_types(program, chosen, random); break;
        case 3:
        case 4: change_extent(program, chosen, random); break;
        case 5:
        case 6:
        case 7: change_attributes(chosen.instruction->request, random); break;
        case 8: change_op(chosen, random); break;
        case 9: change_place(chosen, random); break;
        case 10: change_operands(chosen, random); break;
        default: chosen.instruction->request.rounding.stream = static_cast<std::int64_t>(below(3, random));
      }
    } else if (kind == 13) {
      change_task(one_in(2, random) ? program.step : program.update, random);
    } else if (kind == 14) {
      change_variable(program, random);
    } else {
      change_program(program, random);
    }
  }
}

}  // namespace aspen::testing
