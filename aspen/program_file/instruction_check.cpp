#include "aspen/program_file/instruction_check.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "aspen/compiler/build_program.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/compiler/stochastic_rounding.h"
#include "aspen/ops/replica/replica.h"

namespace aspen {
namespace {

// The op in a graph of its own; the op's own rule says what it makes of such operands.
const Op& emit(Graph& graph, const KernelRequest& request) {
  std::vector<Value*> inputs;
  for (const KernelInput& input : request.inputs) {
    inputs.push_back(input.present ? graph.add_input(fmt::format("x{}", inputs.size()), input.type) : nullptr);
  }
  return *Builder(graph).emit(request.op, std::move(inputs), request.attrs);
}

void check_results(const KernelRequest& request, const Op& op) {
  expect(op.num_inputs() == request.inputs.size(), "op {} has {} operands where {} are stored", request.op,
         op.num_inputs(), request.inputs.size());
  expect(op.num_outputs() == request.outputs.size(), "op {} has {} results where {} are stored", request.op,
         op.num_outputs(), request.outputs.size());
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    expect(op.output(i)->type() == request.outputs[i], "result {} of op {} is {} where {} is stored", i, request.op,
           to_string(op.output(i)->type()), to_string(request.outputs[i]));
  }
}

// Rules of ops count with sizes and steps that could be meant: sums and products of such numbers stay within 64 bits.
class AttributeCheck final : public PartialAttrVisitor {
 public:
  using PartialAttrVisitor::operator();
  explicit AttributeCheck(std::int64_t most) : most_(most) {}
  void operator()(const char* name, std::int64_t& field) override {
    if (std::string_view(name) != "stream") check(name, field);  // of random numbers: any number
  }
  void operator()(const char* name, std::vector<std::int64_t>& field) override {
    for (std::int64_t number : field) check(name, number);
  }

 private:
  void check(const char* name, std::int64_t number) const {
    expect(number >= -most_ && number <= most_, "attribute {} is {}", name, number);
  }

  std::int64_t most_;
};

void check_attributes(const KernelRequest& request) {
  std::vector<TensorType> types = request.outputs;
  for (const KernelInput& input : request.inputs) types.push_back(input.type);
  check_attributes(request.attrs, types);
}

bool may_overwrite(const Op& op, std::size_t output, std::size_t input) {
  const auto pairs = op.inplace_pairs();
  return std::find(pairs.begin(), pairs.end(), std::pair(output, input)) != pairs.end();
}

// Kernels rely on it that what they write is not what they still read.
void check_overlaps(const Instruction& instruction, const Op& op) {
  const auto &inputs = instruction.inputs, &outputs = instruction.outputs;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    expect(!overlap(outputs[o], instruction.workspace), "a result of op {} lies over its workspace", op.name());
    for (std::size_t other = 0; other < o; ++other) {
      expect(!overlap(outputs[o], outputs[other]), "two results of op {} lie over each other", op.name());
    }
    bool is_taken = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!overlap(outputs[o], inputs[i])) continue;
      expect(!is_taken && is_same_place(outputs[o], inputs[i]) && may_overwrite(op, o, i),
             "result {} of op {} lies over operand {}", o, op.name(), i);
      is_taken = true;
    }
  }
  for (const BufferRef& input : inputs) {
    expect(!overlap(input, instruction.workspace), "an operand of op {} lies over its workspace", op.name());
  }
}

// By which ops of aspen/ops/replica know how many pointers they are handed.
std::int64_t replicas_of(const Op& op) {
  return op.is("replica_gather") ? op.attrs<ReplicaGatherAttrs>().replicas : op.attrs<ReplicaAttrs>().replicas;
}

}  // namespace

void check_attributes(const Attrs& attrs, std::span<const TensorType> types) {
  std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (const TensorType& type : types) {
    for (std::int64_t extent : type.shape) most = std::max(most, extent);
  }
  AttributeCheck check(most);
  attrs.visited(check);
}

void InstructionCheck::check(const Instruction& instruction, std::size_t device, bool in_update) const {
  places_.check(instruction.workspace);
  if (instruction.is_copy) return check_copy(instruction, device);
  check_places(instruction, device);
  check_attributes(instruction.request);
  Graph graph;
  const Op& op = emit(graph, instruction.request);
  check_results(instruction.request, op);
  check_overlaps(instruction, op);
  check_op(instruction, op, in_update);
  check_memory_of_call(instruction);
}

void InstructionCheck::check_copy(const Instruction& instruction, std::size_t device) const {
  expect(instruction.inputs.size() == 1 && instruction.outputs.size() == 1, "a copy has not one place to go");
  const BufferRef &from = instruction.inputs[0], &to = instruction.outputs[0];
  places_.check_read(from, to.bytes, device);
  places_.check_written(to, to.bytes, device);
  expect(!overlap(from, to), "a copy lies over what is copied");
  expect(!instruction.spans_replicas && !instruction.updates_weight, "a copy does more than to copy");
}

void InstructionCheck::check_places(const Instruction& instruction, std::size_t device) const {
  const KernelRequest& request = instruction.request;
  expect(request.inputs.size() == instruction.inputs.size() && request.outputs.size() == instruction.outputs.size(),
         "op {} has another number of buffers than of operands", request.op);
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    expect(request.inputs[i].present != instruction.inputs[i].absent, "an operand of op {} has no buffer", request.op);
    if (!request.inputs[i].present) continue;
    check_type(request.inputs[i].type);
    places_.check_read(instruction.inputs[i], request.inputs[i].type.bytes(), device);
  }
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    check_type(request.outputs[i]);
    places_.check_written(instruction.outputs[i], request.outputs[i].bytes(), device);
  }
  if (instruction.workspace.bytes != 0) {
    places_.check_written(instruction.workspace, instruction.workspace.bytes, device);
  }
}

// What is not aligned for all that a kernel may take it for.
void InstructionCheck::check_memory_of_call(const Instruction& instruction) const {
  const KernelRequest& request = instruction.request;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    places_.check_elements(instruction.inputs[i], request.inputs[i].type.dtype);
  }
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    places_.check_elements(instruction.outputs[i], request.outputs[i].dtype);
  }
  const BufferRef& workspace = instruction.workspace;
  expect(workspace.bytes == 0 || !is_of_call(workspace.arena), "the workspace of op {} is memory of a call",
         request.op);
}

// What the executor is told of an instruction follows from its op.
void InstructionCheck::check_op(const Instruction& instruction, const Op& op, bool in_update) const {
  expect(instruction.spans_replicas == spans_replicas(op) && instruction.updates_weight == is_update(op),
         "op {} is taken for another", op.name());
  expect(instruction.request.rounding.stream == 0 || rounds_to_half(op), "op {} cannot round at random", op.name());
  if (!op.name().starts_with("replica_")) return;
  expect(replicas_of(op) == static_cast<std::int64_t>(program_.replicas), "op {} is for {} replicas of {}", op.name(),
         replicas_of(op), program_.replicas);
  if (instruction.spans_replicas) {
    places_.check(instruction.inputs[0], instruction.inputs[0].bytes);
    expect(!op.is("replica_add") || (!in_update && !overlap(instruction.inputs[0], instruction.inputs[1])),
           "op replica_add is out of place");
  }
}

}  // namespace aspen
