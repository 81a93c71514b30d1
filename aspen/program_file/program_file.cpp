#include "aspen/program_file/program_file.h"

namespace aspen {
namespace {

constexpr const char* kOrigin = "origin";
constexpr const char* kProgram = "program";
constexpr const char* kState = "state";

struct StoredVariable {
  std::string name;
  std::vector<std::byte> bytes;
};

struct StoredState {
  std::vector<StoredVariable> variables;
  std::uint64_t seed = 0, step = 0;
};

template <class Stream>
void visit(Stream& stream, StoredVariable& variable) {
  stream(variable.name, variable.bytes);
}
template <class Stream>
void visit(Stream& stream, StoredState& state) {
  stream(state.variables, state.seed, state.step);
}

struct Writer : ByteWriter<Writer> {};
struct Reader : ByteReader<Reader> {
  using ByteReader::ByteReader;
};

}  // namespace

template <class Stream>
void visit(Stream& stream, ProgramOrigin& origin) {
  stream(origin.version, origin.backend);
}

std::string aspen_version() { return ASPEN_VERSION; }

void store_program(Sections& file, const Program& program, const Backend& backend) {
  ProgramOrigin origin{.version = aspen_version(), .backend = backend.fingerprint()};
  Writer writer;
  writer(origin);
  file.set(kOrigin, writer.take());
  file.set(kProgram, encode_program(program));
}

void store_state(Sections& file, const ProgramState& state) {
  StoredState stored{.seed = state.seed, .step = state.step};
  for (const auto& [name, bytes] : state.variables) stored.variables.push_back({name, bytes});
  Writer writer;
  writer(stored);
  file.set(kState, writer.take());
}

ProgramOrigin origin_of(const Sections& file) {
  ProgramOrigin origin;
  Reader reader(file.get(kOrigin));
  reader(origin);
  reader.expect_end();
  return origin;
}

std::unique_ptr<Program> load_program(const Sections& file, const Backend& backend,
                                      const HostFunctionReader& host_functions) {
  const ProgramOrigin origin = origin_of(file);
  if (origin.version != aspen_version()) {
    throw FileError("it was written by version {}, and this is {}; export the model again", origin.version,
                    aspen_version());
  }
  if (origin.backend != backend.fingerprint()) {
    throw FileError(
        "it was compiled for \"{}\", and this machine is \"{}\"; compile the model here, or for both with "
        "ASPEN_CPU_ISA "
        "set to what they share",
        origin.backend, backend.fingerprint());
  }
  return decode_program(file.get(kProgram), backend, host_functions);
}

ProgramState load_state(const Sections& file) {
  StoredState stored;
  Reader reader(file.get(kState));
  reader(stored);
  reader.expect_end();
  ProgramState state{.seed = stored.seed, .step = stored.step};
  for (StoredVariable& variable : stored.variables) {
    if (!state.variables.emplace(variable.name, std::move(variable.bytes)).second) {
      throw FileError("variable \"{}\" is stored twice", variable.name);
    }
  }
  return state;
}

ProgramState state_of(const Executor& executor) {
  ProgramState state{.seed = executor.seed(), .step = executor.step()};
  for (const ProgramVariable& variable : executor.program().variables) {
    std::vector<std::byte> bytes(executor.host_bytes(variable.name));
    executor.read_variable(variable.name, bytes);
    state.variables.emplace(variable.name, std::move(bytes));
  }
  return state;
}

void restore(Executor& executor, const ProgramState& state) {
  for (const auto& [name, bytes] : state.variables) executor.write_variable(name, bytes);
  executor.set_random_state(state.seed, state.step);
}

}  // namespace aspen
