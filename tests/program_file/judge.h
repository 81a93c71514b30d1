// What must hold of any file whatsoever: it is refused with a FileError, or it is a program that can be loaded and run
// without touching memory that is not its own, or a table of kernels that can be read. Shared by the test of some
// thousand files and by the fuzzer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/program_file/program_check.h"
#include "mutate.h"

namespace aspen::testing {

// Of programs made up by accident; a step of one that stays within takes milliseconds.
inline constexpr ProgramLimits kFuzzLimits = {.memory = 1 << 20, .devices = 8};

enum class Verdict : std::uint8_t {
  kNoFile,     // the sections are not whole
  kNoProgram,  // they are, but hold no program
  kFails,      // a program that stops with an error, such as an index out of range
  kRuns,
};

// Throws std::logic_error if what must hold does not; what reaches outside of its memory is the sanitizer's to notice.
Verdict judge(const Bytes& file, const Backend& backend);

// The file with its program changed (mutate_program), or nothing if it holds none.
std::optional<Bytes> with_changed_program(const Bytes& file, const Backend& backend, Random& random);

// Files to begin with, of programs compiled for the backend.
std::vector<Bytes> seed_files(const Backend& backend);

// Whether the file holds a table of chosen kernels. Throws as `judge` does, which asks this as well.
bool holds_choices(const Bytes& file, const Backend& backend);
// One to begin with.
Bytes seed_of_choices(const Backend& backend);

}  // namespace aspen::testing
