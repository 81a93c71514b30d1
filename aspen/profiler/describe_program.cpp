#include "aspen/profiler/describe_program.h"

#include <algorithm>

#include "aspen/compiler/evaluate.h"
#include "aspen/profiler/op_work.h"
#include "aspen/profiler/repeated_ops.h"
#include "aspen/runtime/task_order.h"

namespace aspen {
namespace {

// An update belongs to a device; it is shown with the first stage there.
std::int64_t first_stage(const Program& program, std::size_t device) {
  const auto is_there = [&](const Task& task) { return task.device == device; };
  const auto found = std::find_if(program.step.begin(), program.step.end(), is_there);
  return found == program.step.end() ? 0 : found->stage;
}

profile::Op described(const Instruction& instruction, profile::Pass pass) {
  const Location location = split_location(instruction.location);
  profile::Op op;
  op.name = shown_name(instruction);
  op.module = location.scope;
  op.source = location.source;
  op.text = instruction.is_copy ? "copy for " + instruction.request.op : to_string(instruction.request);
  op.kernel = instruction.request.candidate;
  op.pass = pass;
  op.num_parts = num_parts(instruction);
  op.calls_host = instruction.kernel->calls_host();
  op.is_copy = only_moves(instruction);
  op.flops = flops_of(instruction);
  op.bytes_read = bytes_read(instruction);
  op.bytes_written = bytes_written(instruction);
  return op;
}

}  // namespace

void describe_tasks(const Program& program, profile::Profile& profile) {
  const auto repeated = repeated_ops(program);
  const auto pass_of = [&](const Instruction& instruction, bool is_update) {
    if (is_update) return profile::Pass::kUpdate;
    if (repeated.count(&instruction) > 0) return profile::Pass::kRecompute;
    return instruction.is_backward ? profile::Pass::kBackward : profile::Pass::kForward;
  };
  for (const auto* tasks : {&program.step, &program.update}) {
    const bool is_update = tasks == &program.update;
    const auto first_row = static_cast<std::int64_t>(profile.tasks.size());
    for (const Task& task : *tasks) {
      const auto row = static_cast<std::int64_t>(profile.tasks.size());
      profile.tasks.push_back({.name = task.name,
                               .section = is_update ? profile::Section::kUpdate : profile::Section::kStep,
                               .device = static_cast<std::int64_t>(task.device),
                               .stage = is_update ? first_stage(program, task.device) : task.stage,
                               .first_op = static_cast<std::int64_t>(profile.ops.size()),
                               .num_ops = static_cast<std::int64_t>(task.instructions.size())});
      for (const Wait& wait : task.waits) {
        profile.waits.push_back(
            {row, first_row + static_cast<std::int64_t>(wait.task), wait.lag, wait.in_all_replicas});
      }
      for (const Instruction& instruction : task.instructions) {
        profile.ops.push_back(described(instruction, pass_of(instruction, is_update)));
        profile.ops.back().task = row;
      }
    }
  }
}

std::string execution_of(const Program& program) {
  if (program.devices.size() == 1) return "single device";
  return take_turns(program.step) ? "sharded" : "pipelined";
}

}  // namespace aspen
