// Programs to store: every op as its examples use it, and a network that trains in every way there is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "aspen/compiler/compile.h"
#include "aspen/program_file/sections.h"
#include "aspen/runtime/executor.h"
#include "tests/support/host_tensor.h"

namespace aspen::testing {

struct ExampleProgram {
  std::string name;
  std::shared_ptr<Program> program;
  Range range = {};  // of inputs
};

// One for each example of each op that can stand alone in a program.
std::vector<ExampleProgram> op_programs(const Backend& backend);

// Two layers with dropout between them and a running mean that the outcome depends on, trained with Adam, 4
// micro-batches to an update: on one device, as a pipeline of two, in replicas, with sharded optimiser state, in phases
// with state off the device, in half with stochastic rounding, with automatic loss scaling, without transfers.
std::vector<ExampleProgram> training_programs(const Backend& backend);

// Numbers for the inputs of one call, and room for its outputs.
class ExampleCall {
 public:
  ExampleCall(const Program& program, const Range& range, std::uint64_t seed);
  // The outputs of one call, as bytes.
  std::vector<std::vector<std::byte>> run(Executor& executor);

 private:
  const Program& program_;
  std::vector<std::vector<std::byte>> inputs_;
};

// Weights and settings to begin with; the rest stays as it is.
void fill_variables(Executor& executor);

// The program and the state of its executor, as they would be in a file.
Sections stored(const Executor& executor, const Backend& backend);

}  // namespace aspen::testing
