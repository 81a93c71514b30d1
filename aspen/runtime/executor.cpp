#include "aspen/runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "aspen/base/error.h"
#include "aspen/runtime/arena_memory.h"
#include "aspen/runtime/output_sink.h"

namespace aspen {
namespace {

// Asking may mean taking the interpreter lock of the front end: not more often than this.
constexpr std::chrono::milliseconds kStopInterval{20};

// An instruction with its addresses filled in.
struct BoundInstruction {
  const Instruction* instruction = nullptr;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
};

void fill(const TensorType& type, double value, void* data) {
  dispatch(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::fill_n(static_cast<T*>(data), type.numel(), static_cast<T>(value));
  });
}

}  // namespace

struct Executor::State {
  std::shared_ptr<const Program> program;
  ArenaMemory variables, constants, scratch;
  std::vector<BoundInstruction> step, update;
  std::vector<OutputSink> sinks;
  std::map<std::string, const ProgramVariable*, std::less<>> variables_by_name;
  StepContext context;

  explicit State(std::shared_ptr<const Program> loaded)
      : program(std::move(loaded)), variables(program->variable_bytes, "variables"),
        constants(program->constant_bytes, "constants"), scratch(program->scratch_bytes, "activations") {
    for (const auto& variable : program->variables) {
      variables_by_name.emplace(variable.name, &variable);
      fill(variable.type, variable.initial, address(variable.buffer));
    }
    for (const auto& constant : program->constants) {
      if (!constant.bytes.empty()) std::memcpy(address(constant.buffer), constant.bytes.data(), constant.bytes.size());
    }
    for (const auto& instruction : program->step) step.push_back(bind(instruction));
    for (const auto& instruction : program->update) update.push_back(bind(instruction));
    for (const auto& output : program->outputs) sinks.emplace_back(output.type);
  }

  std::byte* address(const BufferRef& buffer) const {
    if (buffer.absent) return nullptr;
    const ArenaMemory& arena = buffer.arena == Arena::kVariables   ? variables
                               : buffer.arena == Arena::kConstants ? constants
                                                                   : scratch;
    if (buffer.offset + buffer.bytes > arena.bytes()) {
      throw InternalError("a buffer ends at byte {} of an arena of {}", buffer.offset + buffer.bytes, arena.bytes());
    }
    return arena.data() + buffer.offset;
  }

  BoundInstruction bind(const Instruction& instruction) const {
    BoundInstruction bound{.instruction = &instruction};
    for (const auto& input : instruction.inputs) bound.inputs.push_back(address(input));
    for (const auto& output : instruction.outputs) bound.outputs.push_back(address(output));
    if (instruction.workspace.bytes != 0) bound.workspace = address(instruction.workspace);
    return bound;
  }

  const ProgramVariable& variable(std::string_view name, std::size_t bytes) const {
    auto found = variables_by_name.find(name);
    if (found == variables_by_name.end()) {
      std::vector<std::string> names;
      for (const auto& [known, entry] : variables_by_name) names.push_back(known);
      throw UserError("the program has no variable \"{}\"; close matches: {}.", name, near_matches(name, names));
    }
    const ProgramVariable& result = *found->second;
    if (result.type.bytes() != bytes) {
      throw UserError("variable \"{}\" is {} and takes {} bytes, not {}.", name, to_string(result.type),
                      result.type.bytes(), bytes);
    }
    return result;
  }

  void check(const RunRequest& request) const {
    if (request.device_iterations < 1) {
      throw UserError("a run needs at least one device iteration, not {}.", request.device_iterations);
    }
    if (request.gradient_accumulation != program->gradient_accumulation) {
      throw UserError("the program was compiled for a gradient accumulation of {}; the run asks for {}.",
                      program->gradient_accumulation, request.gradient_accumulation);
    }
    if (request.inputs.size() != program->inputs.size() || request.outputs.size() != program->outputs.size()) {
      throw InternalError("the program has {} inputs and {} outputs; the run passes {} and {}", program->inputs.size(),
                          program->outputs.size(), request.inputs.size(), request.outputs.size());
    }
  }

  void copy_inputs(const RunRequest& request, std::int64_t micro_batch) const {
    for (std::size_t i = 0; i < program->inputs.size(); ++i) {
      const ProgramTensor& input = program->inputs[i];
      std::size_t bytes = input.type.bytes();
      const auto* from = static_cast<const std::byte*>(request.inputs[i]) + micro_batch * bytes;
      if (bytes != 0) std::memcpy(address(input.buffer), from, bytes);
    }
  }

  // Forgets the micro-batches of an update that will not happen.
  void reset_accumulators() const {
    for (const auto& variable : program->variables) {
      if (variable.accumulator) fill(variable.type, variable.initial, address(variable.buffer));
    }
  }

  void run_all(const std::vector<BoundInstruction>& instructions, std::int64_t micro_batch) const {
    const BoundInstruction* current = nullptr;
    try {
      for (const auto& bound : instructions) {
        current = &bound;
        bound.instruction->kernel->run(
            {.inputs = bound.inputs, .outputs = bound.outputs, .workspace = bound.workspace, .step = &context});
      }
    } catch (const std::exception&) {
      const Instruction& instruction = *current->instruction;
      rethrow_with_context(fmt::format("in op {}{} of micro-batch {}", instruction.op,
                                       instruction.location.empty() ? "" : ", captured at " + instruction.location,
                                       micro_batch));
    }
  }

  void run_micro_batch(const RunRequest& request, std::int64_t d, std::int64_t g, std::int64_t micro_batch) {
    copy_inputs(request, micro_batch);
    run_all(step, micro_batch);
    for (std::size_t i = 0; i < sinks.size(); ++i) sinks[i].take(address(program->outputs[i].buffer), d, g);
    if (g + 1 == request.gradient_accumulation) run_all(update, micro_batch);
    ++context.step;
  }
};

Executor::Executor(std::shared_ptr<const Program> program) : state_(std::make_unique<State>(std::move(program))) {}

Executor::~Executor() = default;

const Program& Executor::program() const { return *state_->program; }

void Executor::write_variable(std::string_view name, std::span<const std::byte> bytes) {
  const ProgramVariable& variable = state_->variable(name, bytes.size());
  if (!bytes.empty()) std::memcpy(state_->address(variable.buffer), bytes.data(), bytes.size());
}

void Executor::read_variable(std::string_view name, std::span<std::byte> bytes) const {
  const ProgramVariable& variable = state_->variable(name, bytes.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), state_->address(variable.buffer), bytes.size());
}

void Executor::set_random_state(std::uint64_t seed, std::uint64_t step) {
  state_->context.seed = seed;
  state_->context.step = step;
}

std::uint64_t Executor::seed() const { return state_->context.seed; }

std::uint64_t Executor::step() const { return state_->context.step; }

void Executor::run(const RunRequest& request) {
  using Clock = std::chrono::steady_clock;
  State& state = *state_;
  state.check(request);
  for (std::size_t i = 0; i < state.sinks.size(); ++i) {
    state.sinks[i].begin(request.outputs[i], state.program->outputs[i].name, request.device_iterations,
                         request.gradient_accumulation);
  }
  auto last_asked = Clock::now();
  std::int64_t micro_batch = 0;
  try {
    for (std::int64_t d = 0; d < request.device_iterations; ++d) {
      for (std::int64_t g = 0; g < request.gradient_accumulation; ++g, ++micro_batch) {
        if (request.should_stop && Clock::now() - last_asked >= kStopInterval) {
          if (request.should_stop()) throw Interrupted();
          last_asked = Clock::now();
        }
        state.run_micro_batch(request, d, g, micro_batch);
      }
    }
  } catch (...) {
    state.reset_accumulators();
    throw;
  }
  for (auto& sink : state.sinks) sink.finish();
}

}  // namespace aspen
