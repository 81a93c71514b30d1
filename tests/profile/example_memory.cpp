#include <fmt/format.h>

#include <algorithm>

#include "tests/profile/example_program.h"

namespace aspen::testing {
namespace {

using profile::Buffer;
using profile::BufferKind;
using profile::Op;
using profile::Pass;

std::string dotted(std::string path) {
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

// The memory of one device: variables, constants, slots of its lane, scratch, one after the other.
class DeviceMemory {
 public:
  DeviceMemory(const ExampleModel& model, profile::Profile& profile, std::int64_t device)
      : model_(model), profile_(profile), device_(device) {}

  void make() {
    add_variables();
    end_region("variables");
    add({.name = "causal mask", .module = "encoder", .kind = BufferKind::kConstant, .bytes = 512 * 512});
    end_region("constants");
    if (model_.training) add_stashes();
    end_region(fmt::format("slots of stage {}", device_));
    add_scratch();
    end_region("scratch");
    if (host_end_ > 0) {
      profile_.memory.regions.push_back(
          {.name = "host variables", .device = device_, .on_host = true, .offset = 0, .bytes = host_end_});
    }
  }

 private:
  template <class F>
  void for_each_op(const F& call) const {
    for (std::size_t row = 0; row < profile_.ops.size(); ++row) {
      const Op& op = profile_.ops[row];
      if (profile_.tasks[static_cast<std::size_t>(op.task)].device == device_) call(static_cast<std::int64_t>(row), op);
    }
  }

  void add(Buffer buffer) {
    buffer.device = device_;
    std::int64_t& end = buffer.on_host ? host_end_ : end_;
    buffer.offset = end;
    end += buffer.copies > 1 ? buffer.copies * buffer.stride : buffer.bytes;
    profile_.memory.buffers.push_back(std::move(buffer));
  }

  void end_region(const std::string& name) {
    profile_.memory.regions.push_back({.name = name, .device = device_, .offset = begin_, .bytes = end_ - begin_});
    begin_ = end_;
  }

  void add_variables() {
    for_each_op([&](std::int64_t, const Op& op) {
      const Pass weights_of = model_.training ? Pass::kUpdate : Pass::kForward;
      if (op.pass != weights_of || (op.name != "adam" && op.name != "dot")) return;
      const std::int64_t bytes = std::max<std::int64_t>(op.bytes_read / 2, 64) / 64 * 64;
      const std::string name = dotted(op.module) + ".weight";
      add({.name = name, .module = op.module, .kind = BufferKind::kWeight, .bytes = bytes});
      if (!model_.training) return;
      add({.name = "Accum___" + name, .module = op.module, .kind = BufferKind::kAccumulator, .bytes = bytes});
      for (const char* state : {"Accl1___", "Accl2___"}) {
        add({.name = state + name,
             .module = op.module,
             .kind = BufferKind::kOptimizerState,
             .on_host = model_.offloads,
             .bytes = bytes});
      }
    });
  }

  // What the backward pass reads of the forward pass: alive from an op to its mirror image.
  void add_stashes() {
    std::vector<std::int64_t> forward, backward;
    for_each_op([&](std::int64_t row, const Op& op) {
      if (op.pass == Pass::kForward) forward.push_back(row);
      if (op.pass == Pass::kBackward) backward.push_back(row);
    });
    for (std::size_t i = 0; i < std::min(forward.size(), backward.size()); ++i) {
      const Op& op = profile_.ops[static_cast<std::size_t>(forward[i])];
      const std::int64_t bytes = op.bytes_written / 64 * 64;
      add({.name = fmt::format("{}/{}", op.module, op.name),
           .module = op.module,
           .kind = BufferKind::kStash,
           .op = forward[i],
           .bytes = bytes,
           .copies = example_depth(model_, device_),
           .stride = bytes,
           .first = forward[i],
           .last = backward[backward.size() - 1 - i]});
    }
  }

  // Results that live for two more ops, in the first place where nothing else is alive.
  void add_scratch() {
    std::vector<Buffer> alive;
    std::int64_t high = end_;
    for_each_op([&](std::int64_t row, const Op& op) {
      std::erase_if(alive, [&](const Buffer& buffer) { return buffer.last < row; });
      if (op.pass == Pass::kUpdate) return;
      const profile::Task& task = profile_.tasks[static_cast<std::size_t>(op.task)];
      Buffer buffer{.name = fmt::format("{}/{}", op.module, op.name),
                    .module = op.module,
                    .kind = op.pass == Pass::kForward ? BufferKind::kActivation : BufferKind::kGradient,
                    .device = device_,
                    .op = row,
                    .bytes = std::max<std::int64_t>(op.bytes_written / 64 * 64, 64),
                    .first = row,
                    .last = std::min(row + 2, task.first_op + task.num_ops - 1)};
      place(buffer, alive);
      if (op.name == "dot") {
        Buffer workspace = buffer;
        workspace.name = "workspace of " + buffer.name;
        workspace.kind = BufferKind::kWorkspace;
        workspace.last = row;
        place(workspace, alive);
      }
      for (const Buffer& each : alive) high = std::max(high, each.offset + each.bytes);
    });
    end_ = high;
  }

  void place(Buffer& buffer, std::vector<Buffer>& alive) {
    std::sort(alive.begin(), alive.end(), [](const Buffer& a, const Buffer& b) { return a.offset < b.offset; });
    buffer.offset = begin_;
    for (const Buffer& other : alive) {
      if (buffer.offset + buffer.bytes <= other.offset) break;
      buffer.offset = std::max(buffer.offset, other.offset + other.bytes);
    }
    alive.push_back(buffer);
    profile_.memory.buffers.push_back(buffer);
  }

  const ExampleModel& model_;
  profile::Profile& profile_;
  std::int64_t device_, begin_ = 0, end_ = 0, host_end_ = 0;
};

}  // namespace

void add_example_memory(const ExampleModel& model, profile::Profile& profile) {
  profile.memory.budget = model.budget;
  for (std::int64_t device = 0; device < model.devices; ++device) DeviceMemory(model, profile, device).make();
}

}  // namespace aspen::testing
