#include "aspen/program_file/program_file.h"

#include <algorithm>

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
  auto& [name, bytes] = variable;
  stream(name, bytes);
}
template <class Stream>
void visit(Stream& stream, StoredState& state) {
  auto& [variables, seed, step] = state;
  stream(variables, seed, step);
}

struct Writer : ByteWriter<Writer> {};
struct Reader : ByteReader<Reader> {
  using ByteReader::ByteReader;
};

// Whether each replica holds what the host sees of its group.
bool is_seen_whole(std::span<const std::byte> replicas, std::span<const std::byte> seen,
                   const ProgramVariable& variable, std::size_t num_replicas) {
  const std::size_t bytes = variable.type.bytes();
  for (std::size_t replica = 0; replica < num_replicas; ++replica) {
    const std::size_t group = variable.grouping.group_of(replica, num_replicas);
    const auto own = replicas.subspan(replica * bytes, bytes), of_group = seen.subspan(group * bytes, bytes);
    if (!std::equal(own.begin(), own.end(), of_group.begin())) return false;
  }
  return true;
}

}  // namespace

template <class Stream>
void visit(Stream& stream, ProgramOrigin& origin) {
  auto& [version, ops, backend] = origin;
  stream(version, ops, backend);
}

std::string aspen_version() { return ASPEN_VERSION; }

ProgramOrigin current_origin(const Backend& backend) {
  return {.version = aspen_version(), .ops = op_set(), .backend = backend.fingerprint()};
}

void store_origin(Sections& file, ProgramOrigin origin) {
  Writer writer;
  writer(origin);
  file.set(kOrigin, writer.take());
}

void store_program(Sections& file, const Program& program, const Backend& backend) {
  store_origin(file, current_origin(backend));
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
                                      const HostFunctionReader& host_functions, const ProgramLimits& limits) {
  const ProgramOrigin origin = origin_of(file), here = current_origin(backend);
  if (origin.version != here.version) {
    throw FileError("it was written by version {}, and this is {}; export the model again", origin.version,
                    here.version);
  }
  if (origin.ops != here.ops) {
    throw FileError("it was written by another build of version {}, with other ops; export the model again",
                    origin.version);
  }
  if (origin.backend != here.backend) {
    throw FileError(
        "it was compiled for \"{}\", and this machine is \"{}\"; compile the model here, or for both with "
        "ASPEN_CPU_ISA set to what they share",
        origin.backend, here.backend);
  }
  return decode_program(file.get(kProgram), backend, host_functions, limits);
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
  const std::size_t num_replicas = executor.program().replicas;
  for (const ProgramVariable& variable : executor.program().variables) {
    std::vector<std::byte> seen(executor.host_bytes(variable.name));
    executor.read_variable(variable.name, seen);
    const bool is_all = num_replicas == 1 || variable.sharded || variable.grouping.returns_all;
    if (!is_all) {
      std::vector<std::byte> replicas(num_replicas * variable.type.bytes());
      executor.read_replicas(variable.name, replicas);
      if (!is_seen_whole(replicas, seen, variable, num_replicas)) seen = std::move(replicas);
    }
    state.variables.emplace(variable.name, std::move(seen));
  }
  return state;
}

void restore(Executor& executor, const ProgramState& state) {
  for (const auto& [name, bytes] : state.variables) {
    if (bytes.size() == executor.host_bytes(name)) {
      executor.write_variable(name, bytes);
    } else {
      executor.write_replicas(name, bytes);
    }
  }
  executor.set_random_state(state.seed, state.step);
}

}  // namespace aspen
