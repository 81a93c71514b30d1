// The fields of a program, listed once for writing and reading. Kernels are not among them.
#pragma once

#include "aspen/runtime/program.h"

namespace aspen {

template <class Stream>
void visit(Stream& stream, TensorType& type) {
  stream.choice(type.dtype, static_cast<DType>(kNumDTypes - 1));
  stream(type.shape);
}

template <class Stream>
void visit(Stream& stream, BufferRef& place) {
  stream.choice(place.arena, Arena::kHostSlots);
  stream(place.owner, place.offset, place.bytes, place.absent);
}

template <class Stream>
void visit(Stream& stream, KernelInput& input) {
  stream(input.type, input.present);
}

template <class Stream>
void visit(Stream& stream, Rounding& rounding) {
  stream(rounding.stream);
  stream.choice(rounding.draws, Rounding::Draws::kPerShard);
}

template <class Stream>
void visit(Stream& stream, DevicePlan& plan) {
  stream(plan.variable_bytes, plan.constant_bytes, plan.scratch_bytes, plan.host_variable_bytes);
}

template <class Stream>
void visit(Stream& stream, Lane& lane) {
  stream(lane.device, lane.depth, lane.slot_bytes, lane.host_slot_bytes);
}

template <class Stream>
void visit(Stream& stream, Wait& wait) {
  stream(wait.task, wait.lag, wait.in_all_replicas);
}

template <class Stream>
void visit(Stream& stream, InputCopy& copy) {
  stream(copy.input, copy.to);
}

template <class Stream>
void visit(Stream& stream, OutputCopy& copy) {
  stream(copy.output, copy.from);
}

// An instruction's attributes depend on its op: they are the business of the stream.
template <class Stream>
void visit(Stream& stream, Instruction& instruction) {
  KernelRequest& request = instruction.request;
  stream(request.op, request.inputs, request.outputs, request.half_partials, request.rounding);
  stream(instruction.location, instruction.inputs, instruction.outputs, instruction.workspace, instruction.is_copy,
         instruction.spans_replicas, instruction.is_backward, instruction.updates_weight);
  if (!instruction.is_copy) stream.attributes(request);
}

template <class Stream>
void visit(Stream& stream, Task& task) {
  stream(task.name, task.device, task.lane, task.stage, task.cost, task.nanoseconds, task.moves);
  stream(task.inputs, task.instructions, task.outputs, task.waits);
}

template <class Stream>
void visit(Stream& stream, ProgramTensor& tensor) {
  stream(tensor.name, tensor.type);
}

template <class Stream>
void visit(Stream& stream, ReplicaGrouping& grouping) {
  stream.choice(grouping.kind, ReplicaGrouping::Kind::kNone);
  stream(grouping.size, grouping.returns_all);
}

template <class Stream>
void visit(Stream& stream, ProgramVariable& variable) {
  stream(variable.name, variable.type, variable.places, variable.initial, variable.accumulator, variable.reduced,
         variable.sharded, variable.gathered, variable.grouping);
}

template <class Stream>
void visit(Stream& stream, VariableOutput& output) {
  stream(output.output, output.variable);
}

template <class Stream>
void visit(Stream& stream, ProgramConstant& constant) {
  stream(constant.buffer, constant.bytes);
}

template <class Stream>
void visit(Stream& stream, Program& program) {
  stream(program.name, program.inputs, program.outputs, program.variables, program.variable_outputs,
         program.tensor_names, program.constants, program.devices, program.lanes, program.step, program.update);
  stream(program.gradient_accumulation, program.training, program.replicas, program.input_grouping,
         program.has_transfers, program.checks_floats, program.adjusts_loss_scaling);
}

}  // namespace aspen
