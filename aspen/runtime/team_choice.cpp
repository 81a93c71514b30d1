#include "aspen/runtime/team_choice.h"

#include <algorithm>
#include <limits>

namespace aspen {

std::size_t TeamChoice::add_task(std::size_t num_instructions) {
  Task& task = tasks_.emplace_back();
  task.costs.resize(num_instructions);
  task.uses_team.assign(num_instructions, true);
  task.settled = task.uses_team;  // nothing is allocated later
  task.tried.fill(task.uses_team);
  return tasks_.size() - 1;
}

void TeamChoice::begin_round(Clock::time_point now) {
  if (phase_ == kSettled && now >= settled_until_) begin_trial(now);
  round_began_ = last_ = now;
}

void TeamChoice::begin_trial(Clock::time_point now) {
  for (Task& task : tasks_) {
    std::fill(task.costs.begin(), task.costs.end(), Cost{});
    std::fill(task.uses_team.begin(), task.uses_team.end(), true);
    task.shortest.fill(Clock::duration::max());
    task.rounds.fill(0);
    task.rounds_since_shorter = 0;
  }
  phase_ = kTogether;
  trial_began_ = now;
  time_in_phase_ = {};
}

void TeamChoice::end_instruction(std::size_t task, std::size_t instruction, Clock::time_point now) {
  if (phase_ != kMixed) {
    Cost& cost = tasks_[task].costs[instruction];
    Clock::duration& shortest = tasks_[task].uses_team[instruction] ? cost.together : cost.alone;
    shortest = std::min(shortest, now - last_);
  }
  last_ = now;
}

void TeamChoice::end_round(std::size_t task, Clock::time_point now) {
  Task& ended = tasks_[task];
  const Clock::duration round = now - round_began_;
  ended.rounds_since_shorter = is_clearly_shorter(round, ended.shortest[phase_]) ? 0 : ended.rounds_since_shorter + 1;
  ended.shortest[phase_] = std::min(ended.shortest[phase_], round);
  ++ended.rounds[phase_];
  time_in_phase_ += round;
  if (has_enough_rounds()) next_phase(now);
}

bool TeamChoice::has_enough_rounds() const {
  int least = std::numeric_limits<int>::max(), most = 0;
  bool have_settled = true;
  for (const Task& task : tasks_) {
    least = std::min(least, task.rounds[phase_]);
    most = std::max(most, task.rounds[phase_]);
    have_settled = have_settled && task.rounds_since_shorter >= kRounds;
  }
  const bool is_long = time_in_phase_ >= kLongPhase;
  return (least >= kRounds && (have_settled || is_long)) || (least > 0 && most >= kManyRounds) ||
         most >= kManyRounds * kManyRounds;
}

void TeamChoice::next_phase(Clock::time_point now) {
  for (Task& task : tasks_) {
    task.tried[phase_] = task.uses_team;
    for (std::size_t i = 0; phase_ != kMixed && i < task.costs.size(); ++i) {
      const Cost& cost = task.costs[i];
      task.uses_team[i] =
          phase_ == kTogether ? cost.together >= kSurelyWorth : is_clearly_shorter(cost.together, cost.alone);
    }
    task.rounds_since_shorter = 0;
  }
  if (phase_ == kMixed) return settle(now);
  phase_ = phase_ == kTogether ? kAlone : kMixed;
  time_in_phase_ = {};
}

// What does not gain a thirtieth is noise, or never shared at all. Anything is shorter than what was not measured.
bool TeamChoice::is_clearly_shorter(Clock::duration one, Clock::duration other) { return one < other - other / 30; }

// Per round of any task: what one leaves in a core's cache another finds there, or not.
TeamChoice::Clock::duration TeamChoice::time_per_round(std::size_t trial) const {
  Clock::duration sum{};
  int rounds = 0;
  for (const Task& task : tasks_) {
    if (task.rounds[trial] > 0) sum += task.shortest[trial] * task.rounds[trial];
    rounds += task.rounds[trial];
  }
  return sum / std::max(1, rounds);
}

void TeamChoice::settle(Clock::time_point now) {
  std::size_t best = kMixed;
  for (std::size_t other : {kTogether, kAlone}) {
    if (time_per_round(other) < time_per_round(best)) best = other;
  }
  bool is_confirmed = true;
  for (Task& task : tasks_) {
    task.uses_team = task.tried[best];
    is_confirmed = is_confirmed && task.uses_team == task.settled;
    task.settled = task.uses_team;
  }
  phase_ = kSettled;
  const Clock::duration pause = std::max(kLeastPause, (now - trial_began_) * kPauseOfTrial);
  settled_until_ = now + (is_confirmed ? pause : pause / kSooner);
}

}  // namespace aspen
