// Which instructions of a worker are worth the threads of its device. What cores fetch from each other can take longer
// than what they share: that depends on the machine, on what else it is busy with and on the ops around, so it is
// measured while the program runs. A few rounds of all tasks go with the threads, a few without, and a few with what
// was faster for each instruction; the best of the three stays until the next trial. Results do not depend on it. Owned
// by a worker.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace aspen {

class TeamChoice {
 public:
  using Clock = std::chrono::steady_clock;

  // Numbers the tasks from 0. Before the first round.
  std::size_t add_task(std::size_t num_instructions);

  // A round of a task, which ends before the next one begins.
  void begin_round(Clock::time_point now);
  bool uses_team(std::size_t task, std::size_t instruction) const { return tasks_[task].uses_team[instruction]; }
  // Whether this round is a trial: only then the end of each instruction and of the round is wanted.
  bool is_trial() const { return phase_ != kSettled; }
  void end_instruction(std::size_t task, std::size_t instruction, Clock::time_point now);
  void end_round(std::size_t task, Clock::time_point now);

 private:
  enum Phase : std::uint8_t { kTogether, kAlone, kMixed, kSettled };
  static constexpr std::size_t kNumTrials = 3;
  // Of each task, and as many since one was clearly shorter than those before: after a change, or a pause, caches take
  // some ten rounds to settle. The shortest counts, others were disturbed. Fewer of a task that comes but now and then,
  // and of tasks so long that a pause does not show; time between rounds does not count.
  static constexpr int kRounds = 4, kManyRounds = 64;
  static constexpr Clock::duration kLongPhase = std::chrono::milliseconds{10};
  // Longer work is shared without asking: to try it alone takes too long.
  static constexpr Clock::duration kSurelyWorth = std::chrono::microseconds{300};
  // Between trials, and so many times the last one. A trial that contradicts the one before may have been disturbed:
  // the next comes soon.
  static constexpr Clock::duration kLeastPause = std::chrono::seconds{1};
  static constexpr int kPauseOfTrial = 50, kSooner = 10;

  struct Cost {
    Clock::duration together = Clock::duration::max(), alone = Clock::duration::max();
  };
  struct Task {
    std::vector<Cost> costs;                             // by instruction
    std::vector<bool> uses_team;                         // likewise
    std::vector<bool> settled;                           // uses_team after the last trial
    std::array<std::vector<bool>, kNumTrials> tried;     // and in each of this one
    std::array<Clock::duration, kNumTrials> shortest{};  // round of each trial
    std::array<int, kNumTrials> rounds{};                // of each trial
    int rounds_since_shorter = 0;                        // of the trial that runs
  };

  void begin_trial(Clock::time_point now);
  bool has_enough_rounds() const;
  void next_phase(Clock::time_point now);
  static bool is_clearly_shorter(Clock::duration one, Clock::duration other);
  Clock::duration time_per_round(std::size_t trial) const;
  void settle(Clock::time_point now);

  std::vector<Task> tasks_;
  Phase phase_ = kSettled;
  Clock::duration time_in_phase_{};
  Clock::time_point trial_began_{}, round_began_{}, last_{}, settled_until_{};
};

}  // namespace aspen
