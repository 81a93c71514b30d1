// A program: instructions over fixed buffers, made by the compiler, run by the executor. Everything it needs
// while running is decided here: kernels, offsets, workspaces.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "aspen/backends/api/kernel.h"

namespace aspen {

enum class Arena : std::uint8_t { kVariables, kConstants, kScratch };

inline constexpr std::size_t kBufferAlignment = 64;

// A place in an arena; bytes == 0 with absent == true stands for an optional input left out.
struct BufferRef {
  Arena arena = Arena::kScratch;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool absent = false;
};

struct Instruction {
  std::string op;        // name, for messages and traces
  std::string location;  // "conv1 (model.py:42)"
  std::unique_ptr<Kernel> kernel;
  std::vector<BufferRef> inputs, outputs;
  BufferRef workspace;
};

struct ProgramTensor {
  std::string name;
  TensorType type;
  BufferRef buffer;
};

struct ProgramVariable {
  std::string name;
  TensorType type;
  BufferRef buffer;
  double initial = 0;
  bool accumulator = false;  // holds a part of an update; returns to `initial` when a run ends before the update
};

struct ProgramConstant {
  BufferRef buffer;
  std::vector<std::byte> bytes;
};

struct Program {
  std::string name;
  std::vector<ProgramTensor> inputs, outputs;  // of one micro-batch
  std::vector<ProgramVariable> variables;
  std::vector<ProgramConstant> constants;
  std::vector<Instruction> step;           // for every micro-batch
  std::vector<Instruction> update;         // after the last micro-batch of a weight update
  std::int64_t gradient_accumulation = 1;  // micro-batches between two updates
  std::size_t variable_bytes = 0, constant_bytes = 0, scratch_bytes = 0;
};

}  // namespace aspen
