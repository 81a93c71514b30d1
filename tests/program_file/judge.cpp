#include "judge.h"

#include <algorithm>
#include <stdexcept>

#include "aspen/base/device_fault.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/ops/control/control.h"
#include "aspen/program_file/choice_file.h"
#include "aspen/program_file/program_file.h"
#include "example_programs.h"
#include "mutate_program.h"
#include "tests/support/host_tensor.h"

namespace aspen::testing {
namespace {

// Runs `work`, in which an error may be a FileError only.
template <class F>
bool is_accepted(const char* what, const F& work) {
  try {
    work();
    return true;
  } catch (const FileError&) {
    return false;
  } catch (const std::exception& error) {
    throw std::logic_error(fmt::format("{} a file threw something else than a FileError: {}", what, error.what()));
  }
}

// An accepted file that is changed, but not its checksums, is refused.
void expect_refused(const Bytes& file) {
  Random random(checksum(file));
  for (int i = 0; i < 2; ++i) {
    Bytes changed = file;
    mutate_bytes(changed, file, random);
    if (changed == file) continue;
    if (is_accepted("reading", [&] { Sections::decode(changed); })) {
      throw std::logic_error("a file was changed, and not refused");
    }
  }
}

// The kernel over operands that lie each for itself, where the sanitizer sees the end of each. In an arena one lies
// beside the other.
void run_alone(const Instruction& instruction) {
  const KernelRequest& request = instruction.request;
  std::vector<HostTensor> inputs, outputs;
  for (const KernelInput& input : request.inputs) {
    inputs.push_back(input.present ? random_tensor(input.type, {}, inputs.size()) : HostTensor());
  }
  for (const TensorType& type : request.outputs) outputs.emplace_back(type);
  std::vector<const void*> read;
  std::vector<void*> written;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    read.push_back(request.inputs[i].present ? inputs[i].data() : nullptr);
  for (HostTensor& output : outputs) written.push_back(output.data());
  HostTensor workspace({DType::kU8, {static_cast<std::int64_t>(instruction.kernel->workspace_bytes())}});
  const StepContext step;
  instruction.kernel->reserve(1);
  instruction.kernel->run({.inputs = read, .outputs = written, .workspace = workspace.data(), .step = &step});
}

bool run_all_alone(const std::vector<Task>& tasks) {
  for (const Task& task : tasks) {
    for (const Instruction& instruction : task.instructions) {
      if (instruction.is_copy || instruction.spans_replicas) continue;
      try {
        run_alone(instruction);
      } catch (const UserError&) {
        return false;  // an index out of range, say
      }
    }
  }
  return true;
}

// How many turns the loops of an op take, one in another.
double turns_of(const std::string& name, const Attrs& attrs) {
  double turns = name == "loop" ? static_cast<double>(attrs.as<LoopAttrs>().count) : 1;
  double longest = 1;
  for (const Graph* body : bodies_of(attrs)) {
    for (const auto& op : body->ops()) longest = std::max(longest, turns_of(op->name(), op->attrs()));
  }
  return turns * longest;
}

bool is_long(const std::vector<Task>& tasks) {
  constexpr double kFewTurns = 1000;
  for (const Task& task : tasks) {
    for (const Instruction& instruction : task.instructions) {
      if (!instruction.is_copy && turns_of(instruction.request.op, instruction.request.attrs) > kFewTurns) return true;
    }
  }
  return false;
}

// One call on numbers that depend on nothing but the program.
Verdict run(const std::shared_ptr<Program>& program, const Sections& sections, bool has_threads) {
  Executor executor(program, {.num_threads = 1, .thread_per_device = has_threads});
  try {
    if (sections.has("state")) restore(executor, load_state(sections));
  } catch (const UserError&) {
    return Verdict::kNoProgram;
  }
  try {
    ExampleCall(*program, {}, 1).run(executor);
  } catch (const UserError&) {
    return Verdict::kFails;
  } catch (const DeviceError&) {
    return Verdict::kFails;
  }
  return Verdict::kRuns;
}

// What was read can be stored, and is then the same.
bool holds_choices(const Sections& sections, const Backend& backend) {
  ChoiceTable::Choices choices;
  if (!is_accepted("reading choices of", [&] { choices = load_choices(sections, backend); })) return false;
  Sections again;
  store_choices(again, choices, backend);
  if (load_choices(Sections::decode(again.encode()), backend) != choices) {
    throw std::logic_error("choices that were read are not those that are stored");
  }
  return true;
}

}  // namespace

Verdict judge(const Bytes& file, const Backend& backend) {
  Sections sections;
  if (!is_accepted("reading", [&] { sections = Sections::decode(file); })) return Verdict::kNoFile;
  expect_refused(file);
  holds_choices(sections, backend);
  std::shared_ptr<Program> program;
  if (!is_accepted("loading", [&] { program = load_program(sections, backend, nullptr, kFuzzLimits); })) {
    return Verdict::kNoProgram;
  }
  try {
    constexpr std::int64_t kFewRounds = 64;
    if (is_long(program->step) || is_long(program->update)) return Verdict::kFails;
    if (program->gradient_accumulation > kFewRounds) return Verdict::kFails;
    // Memory of the caller, which no limit of the program is for.
    const auto results = static_cast<std::size_t>(program->gradient_accumulation) * program->replicas;
    std::size_t read = 0, written = 0;
    for (const ProgramTensor& input : program->inputs) read += input.type.bytes();
    for (const ProgramTensor& output : program->outputs) written += output.type.bytes() * results;
    if (std::max(read, written) > kFuzzLimits.memory) return Verdict::kFails;
    const bool runs_alone = run_all_alone(program->step) && run_all_alone(program->update);
    const Verdict verdict = run(program, sections, checksum(file) % 8 == 0);
    return runs_alone ? verdict : std::min(verdict, Verdict::kFails);
  } catch (const std::exception& error) {
    throw std::logic_error(fmt::format("an accepted program cannot be run: {}", error.what()));
  }
}

std::optional<Bytes> with_changed_program(const Bytes& file, const Backend& backend, Random& random) {
  try {
    Sections sections = Sections::decode(file);
    auto program = load_program(sections, backend, nullptr, kFuzzLimits);
    mutate_program(*program, random);
    sections.set("program", encode_program(*program));
    return sections.encode();
  } catch (const FileError&) {
    return std::nullopt;
  }
}

std::vector<Bytes> seed_files(const Backend& backend) {
  std::vector<Bytes> files;
  for (const auto& programs : {training_programs(backend), op_programs(backend)}) {
    for (const ExampleProgram& example : programs) {
      if (example.name.starts_with("print")) continue;  // thousands of lines
      Executor executor(example.program, {.num_threads = 1});
      fill_variables(executor);
      files.push_back(stored(executor, backend).encode());
    }
  }
  return files;
}

bool holds_choices(const Bytes& file, const Backend& backend) {
  Sections sections;
  return is_accepted("reading", [&] { sections = Sections::decode(file); }) && holds_choices(sections, backend);
}

Bytes seed_of_choices(const Backend& backend) {
  Sections sections;
  store_choices(sections, {{"conv(f32[8,16,9,9], f32[32,16,3,3])", "onednn"}, {"dot(f32[4,4], f32[4])", ""}}, backend);
  return sections.encode();
}

}  // namespace aspen::testing
