// Runs a stored program for a number of steps in one call, on one thread, and nothing else: what `./dev bench
// callgrind` counts the instructions of. program_steps PROGRAM STEPS; the inputs are made up.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <span>
#include <vector>

#include "aspen/backends/cpu/cpu_backend.h"
#include "aspen/program_file/program_file.h"

namespace aspen {
namespace {

// `steps` times what an input takes: floats between -1 and 1; integers are 0, which is a class and an index of any
// model.
std::vector<std::byte> made_up(const ProgramTensor& input, std::int64_t steps) {
  std::vector<std::byte> bytes(input.type.bytes() * static_cast<std::size_t>(steps));
  if (input.type.dtype != DType::kF32) return bytes;
  std::mt19937 random(0);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(bytes.size() / sizeof(float));
  for (float& value : values) value = uniform(random);
  std::ranges::copy(std::as_bytes(std::span(values)), bytes.begin());
  return bytes;
}

void run(const char* path, std::int64_t steps) {
  const auto backend = make_cpu_backend();
  const Sections file = Sections::read(path);
  std::shared_ptr<Program> program = load_program(file, *backend);
  Executor executor(program, {.num_threads = 1});
  restore(executor, load_state(file));
  RunRequest request{.device_iterations = steps, .gradient_accumulation = program->gradient_accumulation};
  std::vector<std::vector<std::byte>> inputs, outputs;
  for (const ProgramTensor& input : program->inputs) inputs.push_back(made_up(input, steps));
  for (const ProgramTensor& output : program->outputs) {
    outputs.emplace_back(output.type.bytes() * static_cast<std::size_t>(steps));
  }
  for (auto& bytes : inputs) request.inputs.push_back(bytes.data());
  for (auto& bytes : outputs) request.outputs.push_back({.data = bytes.data()});
  executor.run(request);
}

}  // namespace
}  // namespace aspen

int main(int argc, char** argv) {
  if (argc != 3 || std::atoll(argv[2]) < 1) {
    fmt::print(stderr, "usage: program_steps PROGRAM STEPS, with 1 step or more\n");
    return 2;
  }
  try {
    aspen::run(argv[1], std::atoll(argv[2]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "program_steps: {}\n", error.what());
    return 1;
  }
}
