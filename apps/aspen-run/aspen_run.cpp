// aspen-run: runs an exported program on data from .npy files, without Python and without torch.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "aspen/program_file/program_file.h"
#include "backend.h"
#include "npy.h"

namespace aspen {
namespace {

constexpr const char* kUsage = R"(usage: aspen-run PROGRAM [INPUT=FILE.npy ...] [--output FOLDER]

Runs a program that compileAndExport or save has written. Without inputs it says what the program takes and gives.
An input holds any number of batches along its first axis; all inputs the same number. Outputs are written to
FOLDER/<name>.npy (FOLDER is . by default), for all batches.
)";

struct Arguments {
  std::filesystem::path program, output = ".";
  std::map<std::string, std::filesystem::path> inputs;
};

Arguments parse(const std::vector<std::string>& words) {
  Arguments result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--output") {
      if (++i == words.size()) throw UserError("--output wants a folder.");
      result.output = words[i];
    } else if (auto equals = word.find('='); equals != std::string::npos && !result.program.empty()) {
      result.inputs[word.substr(0, equals)] = word.substr(equals + 1);
    } else if (result.program.empty()) {
      result.program = word;
    } else {
      throw UserError("\"{}\" is neither INPUT=FILE.npy nor an option.\n{}", word, kUsage);
    }
  }
  return result;
}

void describe(const Program& program) {
  for (const ProgramTensor& input : program.inputs) fmt::print("input  {}: {}\n", input.name, to_string(input.type));
  for (const ProgramTensor& output : program.outputs) {
    fmt::print("output {}: {}\n", output.name, to_string(output.type));
  }
}

// How many micro-batches an input holds.
std::int64_t batches_of(const Array& array, const ProgramTensor& input, const std::filesystem::path& file) {
  Shape wanted = input.type.shape;
  if (array.type == input.type) return 1;
  const bool fits = array.type.dtype == input.type.dtype && array.type.rank() == input.type.rank() && !wanted.empty() &&
                    wanted[0] > 0 && array.type.shape[0] % wanted[0] == 0;
  if (fits) {
    wanted[0] = array.type.shape[0];
    if (wanted == array.type.shape) return array.type.shape[0] / input.type.shape[0];
  }
  throw UserError("input \"{}\" is {}, and \"{}\" holds {}: expected that, or several of it along the first axis.",
                  input.name, to_string(input.type), file.string(), to_string(array.type));
}

struct Inputs {
  std::vector<Array> arrays;  // by input of the program
  std::int64_t batches = 0;
};

Inputs read_inputs(const Program& program, const std::map<std::string, std::filesystem::path>& files) {
  Inputs result;
  for (const ProgramTensor& input : program.inputs) {
    auto found = files.find(input.name);
    if (found == files.end()) {
      throw UserError("input \"{}\" ({}) is missing; give {}=FILE.npy.", input.name, to_string(input.type), input.name);
    }
    const Array& array = result.arrays.emplace_back(read_npy(found->second));
    const std::int64_t batches = batches_of(array, input, found->second);
    if (result.batches != 0 && batches != result.batches) {
      throw UserError("input \"{}\" holds {} batches where the others hold {}.", input.name, batches, result.batches);
    }
    result.batches = batches;
  }
  for (const auto& [name, file] : files) {
    const auto is_named = [&](const ProgramTensor& input) { return input.name == name; };
    if (std::none_of(program.inputs.begin(), program.inputs.end(), is_named)) {
      throw UserError("the program has no input \"{}\"; call aspen-run with the program alone to see its inputs.",
                      name);
    }
  }
  return result;
}

Array stacked(const ProgramTensor& output, std::int64_t batches) {
  Array array{.type = output.type};
  if (array.type.shape.empty()) array.type.shape = {1};
  array.type.shape[0] *= batches;
  array.bytes.resize(array.type.bytes());
  return array;
}

void run(const Arguments& arguments) {
  const auto backend = best_backend();
  std::shared_ptr<Program> program;
  ProgramState state;
  const Sections file = Sections::read(arguments.program);
  try {
    program = load_program(file, *backend);
    state = load_state(file);
  } catch (const FileError& error) {
    throw UserError("[aspen-run] \"{}\" cannot be used: {}.", arguments.program.string(), error.what());
  }
  if (arguments.inputs.empty() && !program->inputs.empty()) return describe(*program);
  if (program->training) {
    throw UserError("[aspen-run] \"{}\" is a program that trains; export an inferenceModel to run it here.",
                    arguments.program.string());
  }
  if (program->replicas != 1) {
    throw UserError("[aspen-run] \"{}\" was compiled for {} replicas; export it with replicationFactor(1).",
                    arguments.program.string(), program->replicas);
  }
  const Inputs inputs = read_inputs(*program, arguments.inputs);
  Executor executor(program);
  restore(executor, state);
  RunRequest request{.device_iterations = inputs.batches};
  for (const Array& array : inputs.arrays) request.inputs.push_back(array.bytes.data());
  std::vector<Array> outputs;
  for (const ProgramTensor& output : program->outputs) outputs.push_back(stacked(output, inputs.batches));
  for (Array& output : outputs) request.outputs.push_back({.data = output.bytes.data()});
  executor.run(request);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    write_npy(arguments.output / (program->outputs[i].name + ".npy"), outputs[i]);
  }
}

}  // namespace
}  // namespace aspen

int main(int argc, char** argv) {
  try {
    const auto arguments = aspen::parse({argv + 1, argv + argc});
    if (arguments.program.empty() || arguments.program == "--help") {
      fmt::print("{}", aspen::kUsage);
      return arguments.program.empty() ? 2 : 0;
    }
    aspen::run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "aspen-run: {}\n", error.what());
    return 1;
  }
  return 0;
}
