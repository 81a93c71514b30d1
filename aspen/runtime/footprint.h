// What a program takes of each device's memory, by kind and by buffer: plain numbers, for budgets, messages and
// reports. Found from the program alone, so that one out of a file tells the same as one that was just compiled.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "aspen/runtime/program.h"

namespace aspen {

enum class MemoryKind : std::uint8_t {
  kWeights,
  kOptimizerState,
  kAccumulators,  // sums of gradients
  kBuffers,       // of the model, and numbers of the optimiser
  kConstants,
  kStashes,      // values that outlive a task, for all micro-batches that may be under way
  kActivations,  // at the peak of the device's memory: made by the forward pass for the backward pass of the same task
  kScratch,      // the rest of the peak
};
inline constexpr std::size_t kNumMemoryKinds = 8;
std::string_view name_of(MemoryKind kind);  // "optimiser state"

// Whether such bytes are taken all the time, not within a task alone.
constexpr bool is_always_live(MemoryKind kind) { return kind < MemoryKind::kActivations; }

struct HeldBuffer {
  MemoryKind kind = MemoryKind::kScratch;
  std::size_t bytes = 0;  // of a stash: of all micro-batches
  std::string name;       // of a variable, or the op that makes it: "dot, layer1/0/fc (model.py:42)"
  std::string type;       // "f32[8, 16]"; "" of a workspace
};

// Of one device of one replica. The sum of all kinds is planned_bytes.
struct DeviceFootprint {
  std::array<std::size_t, kNumMemoryKinds> bytes{};  // by kind
  std::size_t off_device_bytes = 0;                  // kept on its behalf
  std::size_t budget_bytes = 0;                      // 0: no limit
  std::vector<HeldBuffer> buffers;                   // of the device, at the peak of its memory; largest first

  std::size_t of(MemoryKind kind) const { return bytes[static_cast<std::size_t>(kind)]; }
  std::size_t total() const;
  std::size_t always_live() const;
  // By which it is over its budget; 0: it fits.
  std::size_t excess() const;
};

std::vector<DeviceFootprint> footprint_of(const Program& program);  // by device

// A column per device, a line per kind, then the largest buffers of each device that is over its budget, or of all.
std::string table_of(const std::vector<DeviceFootprint>& devices);

std::string in_mebibytes(std::size_t bytes);  // "12.3 MiB"

}  // namespace aspen
