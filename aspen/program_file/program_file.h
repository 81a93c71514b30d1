// A program and the state it was left in, in one file (docs/program-format.md). Who stores more beside it, such as the
// front end, adds sections of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "aspen/program_file/program_codec.h"
#include "aspen/program_file/sections.h"
#include "aspen/runtime/executor.h"

namespace aspen {

// Who wrote a program, and what its kernels were made by. All of it must be the same to read it.
struct ProgramOrigin {
  std::string version;    // of Aspen
  std::uint64_t ops = 0;  // op_set(): builds of one version may differ
  std::string backend;    // Backend::fingerprint()
  bool operator==(const ProgramOrigin&) const = default;
};

// What the devices held when a program was stored.
struct ProgramState {
  // As the host sees them or, where replicas differ that the host sees as one, what each replica holds, one after the
  // other (Executor::read_replicas). Missing: as at the start.
  std::map<std::string, std::vector<std::byte>> variables;
  std::uint64_t seed = 0, step = 0;  // of random ops
};

std::string aspen_version();
// Of programs that are stored by this process.
ProgramOrigin current_origin(const Backend& backend);

void store_origin(Sections& file, ProgramOrigin origin);
void store_program(Sections& file, const Program& program, const Backend& backend);
void store_state(Sections& file, const ProgramState& state);

ProgramOrigin origin_of(const Sections& file);
// A FileError, without the name of the file, says what does not fit, and what to do, if the program was made by another
// version or for another backend.
std::unique_ptr<Program> load_program(const Sections& file, const Backend& backend,
                                      const HostFunctionReader& host_functions = nullptr,
                                      const ProgramLimits& limits = {});
ProgramState load_state(const Sections& file);

// From and to the memory of a loaded program, which then goes on bit for bit. A state that is not of this program is a
// UserError.
ProgramState state_of(const Executor& executor);
void restore(Executor& executor, const ProgramState& state);

}  // namespace aspen
