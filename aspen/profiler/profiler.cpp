#include "aspen/profiler/profiler.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <exception>
#include <optional>
#include <utility>

#include "aspen/base/log.h"
#include "aspen/profiler/describe_program.h"
#include "aspen/profiler/describe_run.h"
#include "aspen/profiler/host_events.h"
#include "aspen/profiler/live_profiles.h"
#include "aspen/profiler/machine.h"
#include "aspen/profiler/profile_writer.h"

namespace aspen {
namespace {

using Clock = Profiler::Clock;

// After the first call; then twice as long each time.
constexpr Clock::duration kFirstPause = std::chrono::seconds{1}, kLongestPause = std::chrono::minutes{1};
// Writing takes at most one part in so many of the time.
constexpr int kPartsPerWrite = 100;

// "2024-05-01T12:00:00Z"
std::string text_of(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::int64_t micro_batch_size(const Program& program) {
  if (program.inputs.empty() || program.inputs[0].type.shape.empty()) return 1;
  return program.inputs[0].type.shape[0];
}

}  // namespace

class Profiler::State : public LiveProfile, public std::enable_shared_from_this<Profiler::State> {
 public:
  State(ProfileSettings settings, Clock::time_point begin)
      : begin_(begin), writer_(live_profiles::claim(settings.folder, *this)) {
    static_profile_.run.model = std::move(settings.model);
    static_profile_.run.options = std::move(settings.options);
    static_profile_.run.aspen = ASPEN_VERSION;
    static_profile_.run.created = text_of(std::time(nullptr));
    static_profile_.machine = describe_machine();
  }
  ~State() override { live_profiles::release(*this); }

  const std::filesystem::path& folder() const { return writer_.folder(); }

  void add_phase(const std::string& name, std::chrono::nanoseconds duration) {
    auto& phases = static_profile_.compilation;
    const auto is_it = [&](const profile::Phase& phase) { return phase.name == name; };
    const auto found = std::find_if(phases.begin(), phases.end(), is_it);
    if (found == phases.end()) {
      phases.push_back({name, duration.count()});
    } else {
      found->duration += duration.count();
    }
  }

  void set_program(ProfiledProgram given) {
    try {
      describe(std::move(given));
    } catch (const std::exception& error) {
      log::warn("the program \"{}\" runs without a profile in \"{}\": {}", static_profile_.run.model, folder().string(),
                error.what());
      return;
    }
    const std::weak_ptr<State> weak = weak_from_this();
    recorder_ =
        std::make_shared<RunRecorder>(RunRecorder::Hooks{.loading = &host_events::loading, .after_call = [weak] {
                                                           if (const auto state = weak.lock()) state->after_call();
                                                         }});
    write_later(std::nullopt);
  }

  const std::shared_ptr<RunRecorder>& recorder() const { return recorder_; }

  void after_call() {
    const auto now = Clock::now();
    if (is_finished_ || now < next_write_ || is_forked()) return;
    pause_ = std::min(next_write_ == Clock::time_point() ? kFirstPause : 2 * pause_, kLongestPause);
    write_later(copy_of(*recorder_));
    next_write_ = now + std::max(pause_, kPartsPerWrite * writer_.last_duration());
  }

  // When the process ends, others may still run: what they record is not looked at.
  void finish() override {
    if (is_forked() || is_finished_.exchange(true)) return;
    const bool is_running = recorder_ != nullptr && recorder_->is_running();
    if (recorder_ != nullptr && !is_running) {
      std::optional<RecordedRun> run;
      if (!recorder_->workers().empty()) run = copy_of(*recorder_);
      write_later(std::move(run), true);
    }
    writer_.finish();
  }

  // A fork has no thread that writes, and must not wait for it.
  bool is_forked() const { return getpid() != process_; }
  void stay(std::shared_ptr<State> self) { self_ = std::move(self); }

 private:
  void describe(ProfiledProgram given) {
    program_ = std::move(given.program);
    profile::Run& run = static_profile_.run;
    run.backend = std::move(given.backend);
    run.execution = given.execution.empty() ? execution_of(*program_) : std::move(given.execution);
    run.training = program_->training;
    run.replicas = static_cast<std::int64_t>(program_->replicas);
    run.gradient_accumulation = program_->gradient_accumulation;
    run.device_iterations = given.device_iterations;
    run.micro_batch_size = micro_batch_size(*program_);
    static_profile_.from_cache = given.is_loaded;
    describe_tasks(*program_, static_profile_);
    describe_memory(*program_, static_profile_);
  }

  void write_later(std::optional<RecordedRun> run, bool is_complete = false) {
    writer_.write(
        [state = this, recorded = std::move(run), is_complete] { return state->profile_of(recorded, is_complete); });
  }

  // Called by the writer's thread, which ends before the state does.
  profile::Profile profile_of(const std::optional<RecordedRun>& run, bool is_complete) const {
    profile::Profile profile = static_profile_;
    profile.run.complete = is_complete;
    if (run) describe_run(*program_, *run, begin_, profile);
    profile.trace.host = host_events::since(begin_);
    return profile;
  }

  const Clock::time_point begin_;
  const pid_t process_ = getpid();
  const host_events::Scope host_events_;
  profile::Profile static_profile_;  // without what is measured; does not change any more once there is a program
  std::shared_ptr<const Program> program_;
  std::shared_ptr<RunRecorder> recorder_;
  Clock::time_point next_write_;
  Clock::duration pause_{};
  std::atomic<bool> is_finished_{false};
  std::shared_ptr<State> self_;  // of a state that stays until the process ends
  ProfileWriter writer_;         // last: its thread uses all of the above
};

Profiler::Profiler(ProfileSettings settings, Clock::time_point begin)
    : state_(std::make_shared<State>(std::move(settings), begin)) {}

// What a fork has of it stays until the fork ends.
Profiler::~Profiler() {
  if (state_->is_forked()) {
    State& state = *state_;
    state.stay(std::move(state_));
  } else {
    finish();
  }
}

const std::filesystem::path& Profiler::folder() const { return state_->folder(); }

void Profiler::add_phase(const std::string& name, std::chrono::nanoseconds duration) {
  state_->add_phase(name, duration);
}

void Profiler::set_program(ProfiledProgram program) { state_->set_program(std::move(program)); }

const std::shared_ptr<RunRecorder>& Profiler::recorder() const { return state_->recorder(); }

void Profiler::finish() { state_->finish(); }

}  // namespace aspen
