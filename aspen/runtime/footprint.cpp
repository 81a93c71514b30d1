#include "aspen/runtime/footprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

namespace aspen {
namespace {

constexpr std::size_t kListed = 8;  // largest buffers of a device in a table
constexpr double kMebibyte = 1 << 20;

MemoryKind kind_of(VariableKind kind) {
  switch (kind) {
    case VariableKind::kParameter: return MemoryKind::kWeights;
    case VariableKind::kOptimizerState: return MemoryKind::kOptimizerState;
    case VariableKind::kAccumulator: return MemoryKind::kAccumulators;
    case VariableKind::kBuffer:
    case VariableKind::kSetting: break;
  }
  return MemoryKind::kBuffers;
}

std::string maker_of(const Instruction& instruction) {
  const std::string& op = instruction.request.op;
  return instruction.location.empty() ? op : fmt::format("{}, {}", op, instruction.location);
}

std::string type_of(const Instruction& instruction, std::size_t output) {
  const auto& types = instruction.request.outputs;
  return output < types.size() ? to_string(types[output]) : "";  // a copy has no request
}

// A buffer in the scratch memory of a task, alive from instruction `first` to `last`.
struct ScratchBuffer {
  HeldBuffer held;
  std::int64_t first = 0, last = 0;
  bool is_forward = false, is_read_backward = false;
};

// Follows the instructions of a task and notes which bytes of the scratch memory hold what, and how long.
class ScratchLife {
 public:
  explicit ScratchLife(const Program& program, const Task& task) {
    for (const InputCopy& copy : task.inputs) {
      const ProgramTensor& input = program.inputs[copy.input];
      write(copy.to, -1, {.name = input.name, .type = to_string(input.type)}, true);
    }
    std::int64_t now = 0;
    for (const Instruction& instruction : task.instructions) {
      for (const BufferRef& place : instruction.inputs) read(place, now, instruction.is_backward);
      for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
        HeldBuffer made{.name = maker_of(instruction), .type = type_of(instruction, i)};
        write(instruction.outputs[i], now, std::move(made), !instruction.is_backward);
      }
      if (instruction.workspace.bytes != 0) {
        write(instruction.workspace, now, {.name = "workspace of " + maker_of(instruction), .type = ""}, false);
      }
      ++now;
    }
    for (const OutputCopy& copy : task.outputs) read(copy.from, now, false);
  }

  // What is alive when the most bytes are.
  std::vector<HeldBuffer> at_peak() const {
    std::map<std::int64_t, std::int64_t> changes;
    for (const ScratchBuffer& buffer : buffers_) {
      changes[buffer.first] += static_cast<std::int64_t>(buffer.held.bytes);
      changes[buffer.last + 1] -= static_cast<std::int64_t>(buffer.held.bytes);
    }
    std::int64_t bytes = 0, most = 0, peak = 0;
    for (const auto& [time, change] : changes) {
      bytes += change;
      if (bytes <= most) continue;
      most = bytes;
      peak = time;
    }
    std::vector<HeldBuffer> found;
    for (const ScratchBuffer& buffer : buffers_) {
      if (buffer.first > peak || buffer.last < peak) continue;
      found.push_back(buffer.held);
      const bool is_kept = buffer.is_forward && buffer.is_read_backward;
      found.back().kind = is_kept ? MemoryKind::kActivations : MemoryKind::kScratch;
    }
    return found;
  }

 private:
  void read(const BufferRef& place, std::int64_t now, bool backward) {
    if (place.arena != Arena::kScratch || place.absent) return;
    const auto found = at_.find(place.offset);
    if (found == at_.end()) return;
    ScratchBuffer& buffer = buffers_[found->second];
    buffer.last = now;
    buffer.is_read_backward = buffer.is_read_backward || backward;
  }

  // A result that takes the place of an operand begins where that ends.
  void write(const BufferRef& place, std::int64_t now, HeldBuffer made, bool forward) {
    if (place.arena != Arena::kScratch || place.absent || place.bytes == 0) return;
    const auto before = at_.find(place.offset);
    if (before != at_.end() && now >= 0) {
      ScratchBuffer& old = buffers_[before->second];
      if (old.last == now && old.first < now) old.last = now - 1;
    }
    made.bytes = slot_stride(place.bytes);
    at_[place.offset] = buffers_.size();
    buffers_.push_back({.held = std::move(made), .first = now, .last = now, .is_forward = forward});
  }

  std::vector<ScratchBuffer> buffers_;
  std::map<std::size_t, std::size_t> at_;  // by offset: the buffer that was written there last
};

class FootprintFinder {
 public:
  explicit FootprintFinder(const Program& program) : program_(program), devices_(program.devices.size()) {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      devices_[i].budget_bytes = program.devices[i].budget_bytes;
      devices_[i].off_device_bytes = planned_host_bytes(program, i);
    }
  }

  std::vector<DeviceFootprint> run() {
    add_variables();
    add_packed();
    add_constants();
    add_stashes();
    for (std::size_t device = 0; device < devices_.size(); ++device) add_scratch(device);
    for (DeviceFootprint& device : devices_) {
      std::stable_sort(device.buffers.begin(), device.buffers.end(),
                       [](const HeldBuffer& a, const HeldBuffer& b) { return a.bytes > b.bytes; });
    }
    return std::move(devices_);
  }

 private:
  static std::size_t& bytes(DeviceFootprint& device, MemoryKind kind) {
    return device.bytes[static_cast<std::size_t>(kind)];
  }

  void add_variables() {
    for (const ProgramVariable& variable : program_.variables) {
      for (const BufferRef& place : variable.places) {
        if (place.arena != Arena::kVariables) continue;
        const std::size_t size = slot_stride(place.bytes);
        const MemoryKind kind = kind_of(variable.kind);
        bytes(devices_[place.owner], kind) += size;
        devices_[place.owner].buffers.push_back({kind, size, variable.name, to_string(variable.type)});
      }
    }
  }

  void add_packed() {
    for (const Task& task : program_.step) {
      for (const Instruction& instruction : task.instructions) {
        if (!instruction.fills_packed) continue;
        const std::size_t size = slot_stride(instruction.packed.bytes);
        bytes(devices_[task.device], MemoryKind::kWeights) += size;
        devices_[task.device].buffers.push_back(
            {MemoryKind::kWeights, size, "packed for " + maker_of(instruction), ""});
      }
    }
  }

  void add_constants() {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      bytes(devices_[i], MemoryKind::kConstants) = program_.devices[i].constant_bytes;
    }
    for (const ProgramConstant& constant : program_.constants) {
      devices_[constant.buffer.owner].buffers.push_back(
          {MemoryKind::kConstants, slot_stride(constant.buffer.bytes), "constant", ""});
    }
  }

  void add_stashes() {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      bytes(devices_[i], MemoryKind::kStashes) = planned_slot_bytes(program_, i);
    }
    const auto add = [&](const BufferRef& place, std::string name, std::string type) {
      if (place.arena != Arena::kSlots) return;
      const Lane& lane = program_.lanes[place.owner];
      const std::size_t size = slot_stride(place.bytes) * static_cast<std::size_t>(lane.depth);
      devices_[lane.device].buffers.push_back({MemoryKind::kStashes, size, std::move(name), std::move(type)});
    };
    for (const auto* tasks : {&program_.step, &program_.update}) {
      for (const Task& task : *tasks) {
        for (const InputCopy& copy : task.inputs) {
          add(copy.to, program_.inputs[copy.input].name, to_string(program_.inputs[copy.input].type));
        }
        for (const Instruction& instruction : task.instructions) {
          for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
            add(instruction.outputs[i], maker_of(instruction), type_of(instruction, i));
          }
        }
      }
    }
  }

  // Tasks of a device take turns in its scratch memory: the one that needs the most of it counts.
  void add_scratch(std::size_t device) {
    std::vector<HeldBuffer> most;
    std::size_t most_bytes = 0;
    for (const auto* tasks : {&program_.step, &program_.update}) {
      for (const Task& task : *tasks) {
        if (task.device != device) continue;
        std::vector<HeldBuffer> held = ScratchLife(program_, task).at_peak();
        const std::size_t sum = std::accumulate(held.begin(), held.end(), std::size_t{0},
                                                [](std::size_t s, const HeldBuffer& b) { return s + b.bytes; });
        if (sum <= most_bytes) continue;
        most_bytes = sum;
        most = std::move(held);
      }
    }
    DeviceFootprint& footprint = devices_[device];
    std::size_t activations = 0;
    for (HeldBuffer& buffer : most) {
      if (buffer.kind == MemoryKind::kActivations) activations += buffer.bytes;
      footprint.buffers.push_back(std::move(buffer));
    }
    activations = std::min(activations, program_.devices[device].scratch_bytes);
    bytes(footprint, MemoryKind::kActivations) = activations;
    bytes(footprint, MemoryKind::kScratch) = program_.devices[device].scratch_bytes - activations;
  }

  const Program& program_;
  std::vector<DeviceFootprint> devices_;
};

std::string line_of(std::string_view name, const std::vector<DeviceFootprint>& devices,
                    const std::function<std::optional<std::size_t>(const DeviceFootprint&)>& bytes) {
  std::string line = fmt::format("\n  {:<28}", name);
  for (const DeviceFootprint& device : devices) {
    const std::optional<std::size_t> shown = bytes(device);
    line += fmt::format("{:>10}", shown ? fmt::format("{:.2f}", static_cast<double>(*shown) / kMebibyte) : "-");
  }
  return line;
}

}  // namespace

std::string_view name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kWeights: return "weights";
    case MemoryKind::kOptimizerState: return "optimiser state";
    case MemoryKind::kAccumulators: return "gradient accumulators";
    case MemoryKind::kBuffers: return "buffers";
    case MemoryKind::kConstants: return "constants";
    case MemoryKind::kStashes: return "stashes";
    case MemoryKind::kActivations: return "activations at the peak";
    case MemoryKind::kScratch: break;
  }
  return "scratch at the peak";
}

std::size_t DeviceFootprint::total() const { return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}); }

std::size_t DeviceFootprint::always_live() const {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < kNumMemoryKinds; ++i) sum += is_always_live(static_cast<MemoryKind>(i)) ? bytes[i] : 0;
  return sum;
}

std::size_t DeviceFootprint::excess() const {
  return budget_bytes == 0 || total() <= budget_bytes ? 0 : total() - budget_bytes;
}

std::vector<DeviceFootprint> footprint_of(const Program& program) { return FootprintFinder(program).run(); }

std::string in_mebibytes(std::size_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / kMebibyte);
}

std::string table_of(const std::vector<DeviceFootprint>& devices) {
  std::string table = fmt::format("  {:<28}", "MiB");
  for (std::size_t i = 0; i < devices.size(); ++i) table += fmt::format("{:>10}", fmt::format("IPU {}", i));
  for (std::size_t i = 0; i < kNumMemoryKinds; ++i) {
    table += line_of(name_of(static_cast<MemoryKind>(i)), devices, [i](const auto& device) { return device.bytes[i]; });
  }
  table += line_of("total", devices, [](const auto& device) { return device.total(); });
  table += line_of("budget", devices, [](const auto& device) {
    return device.budget_bytes == 0 ? std::nullopt : std::optional(device.budget_bytes);
  });
  table += line_of("off the device", devices, [](const auto& device) { return device.off_device_bytes; });
  const bool any_over = std::any_of(devices.begin(), devices.end(), [](const auto& d) { return d.excess() != 0; });
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (any_over && devices[i].excess() == 0) continue;
    table += fmt::format("\n  largest on IPU {}:", i);
    for (std::size_t k = 0; k < std::min(kListed, devices[i].buffers.size()); ++k) {
      const HeldBuffer& buffer = devices[i].buffers[k];
      table += fmt::format("\n  {:>12}  {:<24}{:<20}{}", in_mebibytes(buffer.bytes), name_of(buffer.kind), buffer.type,
                           buffer.name);
    }
  }
  return table;
}

}  // namespace aspen
