// aspen-run: runs an exported program on data from .npy files, without Python and without torch (docs/deploy.md).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aspen/profiler/engine_options.h"
#include "aspen/profiler/profiler.h"
#include "aspen/program_file/program_file.h"
#include "backend.h"
#include "npy.h"

namespace aspen {
namespace {

constexpr const char* kUsage = R"(usage: aspen-run PROGRAM [INPUT=FILE.npy ...] [--output FOLDER] [--threads N]
                 [--profile FOLDER]

Runs a program that was compiled and exported for inference (compileAndExport, docs/deploy.md).

  PROGRAM          the exported file. Without inputs: says what the program takes and gives, and ends
  INPUT=FILE.npy   what to feed an input, by its name; every input needs one. A file holds one batch of the size the
                   program was compiled for or, along the first axis, any number of them, the same for all inputs
  --output FOLDER  where the results go, as FOLDER/<output>.npy for all batches; . by default
  --threads N      how many threads to use; by default as many as there are cpus (or ASPEN_NUM_THREADS)
  --profile FOLDER writes a profile of the run (docs/profile-format.md) to FOLDER/inference; POPLAR_ENGINE_OPTIONS with
                   autoReport.all and autoReport.directory does so, too
  --help           this text

A program runs where it was compiled for: the same version of Aspen and the same instruction set (ASPEN_CPU_ISA).
)";

struct Arguments {
  std::filesystem::path program, output = ".";
  std::optional<std::filesystem::path> profile;
  std::map<std::string, std::filesystem::path> inputs;
  std::size_t threads = 0;
  bool wants_help = false;
};

std::size_t parse_threads(const std::string& word) {
  std::size_t threads = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), threads);
  if (error == std::errc() && stop == word.data() + word.size() && threads >= 1 && threads <= 4096) return threads;
  throw UserError("--threads takes a number from 1 to 4096, not \"{}\".", word);
}

Arguments parse(const std::vector<std::string>& words) {
  Arguments result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto equals = word.find('=');
    if (word == "--help" || word == "-h") {
      result.wants_help = true;
    } else if (word == "--output" || word == "--threads" || word == "--profile") {
      if (++i == words.size()) throw UserError("{} wants a value; see aspen-run --help.", word);
      if (word == "--output") result.output = words[i];
      if (word == "--profile") result.profile = words[i];
      if (word == "--threads") result.threads = parse_threads(words[i]);
    } else if (word.starts_with("--")) {
      throw UserError("there is no option \"{}\"; see aspen-run --help.", word);
    } else if (result.program.empty()) {
      result.program = word;
    } else if (equals == std::string::npos) {
      throw UserError("\"{}\" is neither INPUT=FILE.npy nor an option; see aspen-run --help.", word);
    } else if (!result.inputs.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
      throw UserError("input \"{}\" is given twice.", word.substr(0, equals));
    }
  }
  return result;
}

struct Loaded {
  std::shared_ptr<Program> program;
  ProgramState state;
};

Loaded load(const std::filesystem::path& path, const Backend& backend) {
  const Sections file = Sections::read(path);
  try {
    return {.program = load_program(file, backend), .state = load_state(file)};
  } catch (const FileError& error) {
    throw UserError("\"{}\" cannot be used: {}.", path.string(), error.what());
  }
}

void describe(const Program& program) {
  for (const ProgramTensor& input : program.inputs) fmt::print("input  {}: {}\n", input.name, to_string(input.type));
  for (const ProgramTensor& output : program.outputs) {
    fmt::print("output {}: {}\n", output.name, to_string(output.type));
  }
}

// Micro-batches that a step of all replicas takes.
std::int64_t batches_at_once(const Program& program, const std::filesystem::path& path) {
  if (program.training) {
    throw UserError("\"{}\" is a program that trains; export an inferenceModel to run it here.", path.string());
  }
  const std::size_t groups = program.input_grouping.num_groups(program.replicas);
  if (groups != program.replicas) {
    throw UserError("\"{}\" gives several of its {} replicas the same input; export it with replicationFactor(1).",
                    path.string(), program.replicas);
  }
  return static_cast<std::int64_t>(groups) * program.gradient_accumulation;
}

struct Inputs {
  std::vector<Array> arrays;  // by input of the program
  std::int64_t batches = 0;
};

// How many micro-batches an input holds, in a type that the program takes.
std::int64_t fit(Array& array, const ProgramTensor& input, const std::filesystem::path& file) {
  const TensorType found = array.type;
  if (auto fitting = converted(array, input.type.dtype, file)) {
    array = std::move(*fitting);
    Shape batch = array.type.shape;
    const Shape& wanted = input.type.shape;
    if (batch == wanted) return 1;
    if (!wanted.empty() && batch.size() == wanted.size() && wanted[0] > 0 && batch[0] % wanted[0] == 0) {
      const std::int64_t batches = std::exchange(batch[0], wanted[0]) / wanted[0];
      if (batch == wanted && batches > 0) return batches;
    }
  }
  throw UserError(
      "input \"{}\" is {}, and \"{}\" holds {}; expected that shape and type, or several of it along the "
      "first axis.",
      input.name, to_string(input.type), file.string(), to_string(found));
}

Inputs read_inputs(const Program& program, const std::map<std::string, std::filesystem::path>& files) {
  std::vector<std::string> names;
  for (const ProgramTensor& input : program.inputs) names.push_back(input.name);
  for (const auto& [name, file] : files) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw UserError("the program has no input \"{}\"; it has {}.", name, fmt::join(names, ", "));
  }
  Inputs result{.batches = 1};
  for (const ProgramTensor& input : program.inputs) {
    auto found = files.find(input.name);
    if (found == files.end()) {
      throw UserError("input \"{}\" ({}) is missing; give {}=FILE.npy.", input.name, to_string(input.type), input.name);
    }
    Array& array = result.arrays.emplace_back(read_npy(found->second));
    const std::int64_t batches = fit(array, input, found->second);
    if (result.arrays.size() > 1 && batches != result.batches) {
      throw UserError("\"{}\" holds {} batches for input \"{}\", and the files before it hold {}; expected as many.",
                      found->second.string(), batches, input.name, result.batches);
    }
    result.batches = batches;
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

// A name may hold anything; a file of it lies in the folder it should.
std::filesystem::path file_of(const std::filesystem::path& folder, std::string name) {
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; };
  std::replace_if(name.begin(), name.end(), std::not_fn(is_plain), '_');
  if (name.empty() || name[0] == '.') name.insert(0, "_");
  return folder / (name + ".npy");
}

// nullptr: nobody asks for a profile.
std::unique_ptr<Profiler> profiler_for(const Arguments& arguments, const std::shared_ptr<const Program>& program,
                                       const Backend& backend, std::int64_t device_iterations) {
  const auto directory = arguments.profile ? arguments.profile : profile_directory(engine_options_of_environment());
  if (!directory) return nullptr;
  auto profiler = std::make_unique<Profiler>(ProfileSettings{.folder = *directory / "inference", .model = "inference"});
  profiler->set_program({.program = program,
                         .backend = backend.fingerprint(),
                         .device_iterations = device_iterations,
                         .is_loaded = true});
  return profiler;
}

void run(const Arguments& arguments) {
  const auto backend = best_backend();
  const auto [program, state] = load(arguments.program, *backend);
  if (arguments.inputs.empty() && !program->inputs.empty()) return describe(*program);
  const std::int64_t at_once = batches_at_once(*program, arguments.program);
  const Inputs inputs = read_inputs(*program, arguments.inputs);
  if (inputs.batches % at_once != 0) {
    throw UserError("the program takes {} batches at once, on {} replicas; {} cannot be shared out.", at_once,
                    program->replicas, inputs.batches);
  }
  if (!std::filesystem::is_directory(arguments.output)) {
    throw UserError("--output \"{}\" is not a folder.", arguments.output.string());
  }
  RunRequest request{.device_iterations = inputs.batches / at_once,
                     .gradient_accumulation = program->gradient_accumulation};
  const auto profiler = profiler_for(arguments, program, *backend, request.device_iterations);
  Executor executor(
      program, {.num_threads = arguments.threads, .recorder = profiler == nullptr ? nullptr : profiler->recorder()});
  restore(executor, state);
  for (const Array& array : inputs.arrays) request.inputs.push_back(array.bytes.data());
  std::vector<Array> outputs;
  for (const ProgramTensor& output : program->outputs) outputs.push_back(stacked(output, inputs.batches));
  for (Array& output : outputs) request.outputs.push_back({.data = output.bytes.data()});
  executor.run(request);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto file = file_of(arguments.output, program->outputs[i].name);
    write_npy(file, outputs[i]);
    fmt::print("{}: {} -> {}\n", program->outputs[i].name, to_string(outputs[i].type), file.string());
  }
}

}  // namespace
}  // namespace aspen

int main(int argc, char** argv) {
  try {
    const auto arguments = aspen::parse({argv + 1, argv + argc});
    if (arguments.wants_help || arguments.program.empty()) {
      fmt::print(arguments.wants_help ? stdout : stderr, "{}", aspen::kUsage);
      return arguments.wants_help ? 0 : 2;
    }
    aspen::run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "aspen-run: {}\n", error.what());
    return 1;
  }
  return 0;
}
