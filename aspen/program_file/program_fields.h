// The fields of a program, listed once for writing and reading. Each list takes its struct apart into all of its
// fields: one that is added to a struct does not compile until it stands here, too. Kernels are made again, and what
// they keep packed is planned again.
#pragma once

#include "aspen/runtime/program.h"

namespace aspen {

template <class Stream>
void visit(Stream& stream, TensorType& type) {
  auto& [dtype, shape] = type;
  stream.choice(dtype, static_cast<DType>(kNumDTypes - 1));
  stream(shape);
}

template <class Stream>
void visit(Stream& stream, BufferRef& place) {
  auto& [arena, owner, offset, bytes, absent] = place;
  stream.choice(arena, Arena::kOutputs);
  stream(owner, offset, bytes, absent);
}

template <class Stream>
void visit(Stream& stream, KernelInput& input) {
  auto& [type, present, stays] = input;
  stream(type, present, stays);
}

template <class Stream>
void visit(Stream& stream, Rounding& rounding) {
  auto& [random_stream, draws] = rounding;
  stream(random_stream);
  stream.choice(draws, Rounding::Draws::kPerShard);
}

// Attributes depend on the op: they are the business of the stream.
template <class Stream>
void visit(Stream& stream, KernelRequest& request) {
  auto& [op, attrs, inputs, outputs, half_partials, rounding, candidate] = request;
  stream(op);
  stream.attributes(op, attrs);
  stream(inputs, outputs, half_partials, rounding, candidate);
}

// A copy has no request: only the name of the op it stands for, for messages.
template <class Stream>
void visit(Stream& stream, Instruction& instruction) {
  auto& [request, location, kernel, inputs, outputs, workspace, packed, fills_packed, is_copy, spans_replicas,
         is_backward, updates_weight] = instruction;
  stream(is_copy);
  if (is_copy) {
    stream(request.op);
  } else {
    stream(request);
  }
  stream(location, inputs, outputs, workspace, spans_replicas, is_backward, updates_weight);
}

template <class Stream>
void visit(Stream& stream, DevicePlan& plan) {
  auto& [variable_bytes, constant_bytes, scratch_bytes, host_variable_bytes, packed_bytes, budget_bytes] = plan;
  stream(variable_bytes, constant_bytes, scratch_bytes, host_variable_bytes, budget_bytes);
}

template <class Stream>
void visit(Stream& stream, Lane& lane) {
  auto& [device, depth, slot_bytes, host_slot_bytes] = lane;
  stream(device, depth, slot_bytes, host_slot_bytes);
}

template <class Stream>
void visit(Stream& stream, Wait& wait) {
  auto& [task, lag, in_all_replicas] = wait;
  stream(task, lag, in_all_replicas);
}

template <class Stream>
void visit(Stream& stream, InputCopy& copy) {
  auto& [input, to] = copy;
  stream(input, to);
}

template <class Stream>
void visit(Stream& stream, OutputCopy& copy) {
  auto& [output, from] = copy;
  stream(output, from);
}

template <class Stream>
void visit(Stream& stream, Task& task) {
  auto& [name, device, lane, stage, cost, nanoseconds, moves, inputs, instructions, outputs, waits] = task;
  stream(name, device, lane, stage, cost, nanoseconds, moves, inputs, instructions, outputs, waits);
}

template <class Stream>
void visit(Stream& stream, ProgramTensor& tensor) {
  auto& [name, type] = tensor;
  stream(name, type);
}

template <class Stream>
void visit(Stream& stream, ReplicaGrouping& grouping) {
  auto& [kind, size, returns_all] = grouping;
  stream.choice(kind, ReplicaGrouping::Kind::kNone);
  stream(size, returns_all);
}

template <class Stream>
void visit(Stream& stream, ProgramVariable& variable) {
  auto& [name, type, places, initial, kind, reduced, sharded, gathered, grouping] = variable;
  stream(name, type, places, initial);
  stream.choice(kind, VariableKind::kSetting);
  stream(reduced, sharded, gathered, grouping);
}

template <class Stream>
void visit(Stream& stream, StageStart& start) {
  auto& [module, device] = start;
  stream(module, device);
}

template <class Stream>
void visit(Stream& stream, VariableOutput& entry) {
  auto& [output, variable] = entry;
  stream(output, variable);
}

template <class Stream>
void visit(Stream& stream, ProgramConstant& constant) {
  auto& [buffer, bytes] = constant;
  stream(buffer, bytes);
}

template <class Stream>
void visit(Stream& stream, Program& program) {
  auto& [name, inputs, outputs, variables, variable_outputs, tensor_names, constants, devices, lanes, stage_starts,
         step, update, gradient_accumulation, training, replicas, input_grouping, has_transfers, checks_floats,
         adjusts_loss_scaling] = program;
  stream(name, inputs, outputs, variables, variable_outputs, tensor_names, constants, devices, lanes, stage_starts,
         step, update);
  stream(gradient_accumulation, training, replicas, input_grouping, has_transfers, checks_floats, adjusts_loss_scaling);
}

}  // namespace aspen
