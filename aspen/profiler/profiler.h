// Profiler: the profile of one program, from its compilation to its end, and the folder it is written to. Made by who
// compiles or loads a program that is to be profiled; hands its recorder to the executor.
//
// The folder is written by a thread of low priority: when the program is known, after the first call, then at growing
// intervals, and by the destructor or when the process ends. A process that is killed leaves what was written last.
// What cannot be written is a warning with the path: profiling never makes a run fail.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "aspen/profile/profile.h"
#include "aspen/runtime/program.h"
#include "aspen/runtime/run_recorder.h"

namespace aspen {

struct ProfileSettings {
  std::filesystem::path folder;  // the run's own; while another profiler of the process writes there, "<folder>_2"
  std::string model;             // "training", or as the user names it
  std::vector<profile::Option> options;
};

// What a program does not tell itself.
struct ProfiledProgram {
  std::shared_ptr<const Program> program;
  std::string backend;    // Backend::fingerprint()
  std::string execution;  // "": found in the program
  std::int64_t device_iterations = 1;
  bool is_loaded = false;  // from a file or the cache
};

class Profiler {
 public:
  using Clock = RunRecorder::Clock;

  // begin: from when on times are counted.
  explicit Profiler(ProfileSettings settings, Clock::time_point begin = Clock::now());
  ~Profiler();  // finish()
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  const std::filesystem::path& folder() const;
  // A part of the compilation; those of the same name are added up.
  void add_phase(const std::string& name, std::chrono::nanoseconds duration);
  void set_program(ProfiledProgram program);
  // After set_program; nullptr: the program could not be described, which was a warning.
  const std::shared_ptr<RunRecorder>& recorder() const;

  // Writes what there is as a complete profile, and returns when that is done. Nothing is recorded afterwards.
  void finish();

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace aspen
