#include "aspen/profile/profile_check.h"

#include <string_view>

#include "aspen/base/error.h"

namespace aspen::profile {
namespace {

// The field of one row, for messages.
struct Place {
  std::string_view table, field;
  std::size_t row;
};

void check_range(const Place& place, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw UserError("[profile] {}.{}[{}] is {}; expected {} to {}.", place.table, place.field, place.row, value, least,
                  most);
}

// A row of a table of `size` rows; optional: or -1.
void check_row(const Place& place, std::int64_t value, std::size_t size, bool optional = false) {
  if (value >= (optional ? -1 : 0) && value < static_cast<std::int64_t>(size)) return;
  throw UserError("[profile] {}.{}[{}] is {}, but there are {} rows it could mean{}.", place.table, place.field,
                  place.row, value, size, optional ? " (-1: none)" : "");
}

void check_span(const Place& place, std::int64_t first, std::int64_t count, std::size_t size) {
  if (first >= 0 && count >= 0 && count <= static_cast<std::int64_t>(size) &&
      first <= static_cast<std::int64_t>(size) - count) {
    return;
  }
  throw UserError("[profile] {}.{}[{}]: {} rows from {} on do not lie within the {} there are.", place.table,
                  place.field, place.row, count, first, size);
}

void check_not_negative(const Place& place, std::int64_t value) {
  if (value < 0) {
    throw UserError("[profile] {}.{}[{}] is {}; expected 0 or more.", place.table, place.field, place.row, value);
  }
}

void check_program(const Profile& profile) {
  for (std::size_t i = 0; i < profile.tasks.size(); ++i) {
    const Task& task = profile.tasks[i];
    check_not_negative({"tasks", "device", i}, task.device);
    check_span({"tasks", "first_op", i}, task.first_op, task.num_ops, profile.ops.size());
  }
  for (std::size_t i = 0; i < profile.waits.size(); ++i) {
    check_row({"waits", "task", i}, profile.waits[i].task, profile.tasks.size());
    check_row({"waits", "on", i}, profile.waits[i].on, profile.tasks.size());
  }
  for (std::size_t i = 0; i < profile.ops.size(); ++i) {
    const Op& op = profile.ops[i];
    check_row({"ops", "task", i}, op.task, profile.tasks.size());
    check_not_negative({"ops", "calls", i}, op.calls);
    check_not_negative({"ops", "duration", i}, op.duration);
    check_not_negative({"ops", "bytes_read", i}, op.bytes_read);
    check_not_negative({"ops", "bytes_written", i}, op.bytes_written);
  }
}

void check_block(const Profile& profile, std::size_t i) {
  const Block& block = profile.trace.blocks[i];
  check_row({"trace.blocks", "worker", i}, block.worker, profile.workers.size());
  check_row({"trace.blocks", "call", i}, block.call, profile.calls.size(), true);
  check_row({"trace.blocks", "task", i}, block.task, profile.tasks.size(), true);
  check_not_negative({"trace.blocks", "duration", i}, block.duration);
  if (block.first_op >= 0) {
    check_span({"trace.blocks", "first_op", i}, block.first_op, block.num_ops, profile.ops.size());
  }
  if (block.op_durations >= 0) {
    check_span({"trace.blocks", "op_durations", i}, block.op_durations, block.num_ops,
               profile.trace.op_durations.size());
  }
  if (i > 0 && block.begin < profile.trace.blocks[i - 1].begin) {
    throw UserError("[profile] trace.blocks.begin[{}] is {}, before the {} of the row above; expected blocks by begin.",
                    i, block.begin, profile.trace.blocks[i - 1].begin);
  }
}

void check_memory(const Profile& profile) {
  for (std::size_t i = 0; i < profile.memory.regions.size(); ++i) {
    const Region& region = profile.memory.regions[i];
    check_not_negative({"memory.regions", "device", i}, region.device);
    check_not_negative({"memory.regions", "offset", i}, region.offset);
    check_not_negative({"memory.regions", "bytes", i}, region.bytes);
  }
  for (std::size_t i = 0; i < profile.memory.buffers.size(); ++i) {
    const Buffer& buffer = profile.memory.buffers[i];
    check_not_negative({"memory.buffers", "device", i}, buffer.device);
    check_row({"memory.buffers", "op", i}, buffer.op, profile.ops.size(), true);
    check_row({"memory.buffers", "first", i}, buffer.first, profile.ops.size(), true);
    check_row({"memory.buffers", "last", i}, buffer.last, profile.ops.size(), true);
    if (buffer.last < buffer.first || (buffer.first < 0) != (buffer.last < 0)) {
      throw UserError("[profile] memory.buffers.last[{}] is {}, before its first, {}; expected both to be -1 or an op.",
                      i, buffer.last, buffer.first);
    }
    check_not_negative({"memory.buffers", "offset", i}, buffer.offset);
    check_not_negative({"memory.buffers", "bytes", i}, buffer.bytes);
    check_range({"memory.buffers", "copies", i}, buffer.copies, 1, 1 << 20);
  }
}

void check_analysis(const Profile& profile) {
  const Analysis& analysis = profile.analysis;
  for (std::size_t i = 0; i < analysis.workers.size(); ++i) {
    check_row({"analysis.workers", "worker", i}, analysis.workers[i].worker, profile.workers.size());
  }
  for (std::size_t i = 0; i < analysis.memory.size(); ++i) {
    check_row({"analysis.memory", "peak_op", i}, analysis.memory[i].peak_op, profile.ops.size(), true);
  }
  if (!analysis.op_limits.empty() && analysis.op_limits.size() != profile.ops.size()) {
    throw UserError("[profile] analysis.op_limits has {} entries for {} ops.", analysis.op_limits.size(),
                    profile.ops.size());
  }
  for (std::size_t i = 0; i < analysis.critical_path.size(); ++i) {
    check_row({"analysis", "critical_path", i}, analysis.critical_path[i], profile.trace.blocks.size());
  }
}

}  // namespace

void check(const Profile& profile) {
  for (std::size_t i = 0; i < profile.workers.size(); ++i) {
    check_range({"workers", "replica", i}, profile.workers[i].replica, 0, profile.run.replicas - 1);
    check_not_negative({"workers", "device", i}, profile.workers[i].device);
  }
  check_program(profile);
  for (std::size_t i = 0; i < profile.trace.blocks.size(); ++i) check_block(profile, i);
  check_memory(profile);
  check_analysis(profile);
}

}  // namespace aspen::profile
