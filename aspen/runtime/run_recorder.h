// RunRecorder: what the workers of an executor did and when, for profiles. Who profiles makes one, hands it to the
// executor (ExecutorOptions::recorder) and reads it between calls. It outlives executors: one that takes the place of
// another goes on where that one stopped.
//
// Every worker writes to rings of its own, which are there before a call begins. A run of a task is always recorded;
// how long each of its instructions took only in some calls, so that reading the clock takes no more than a hundredth
// of the time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "aspen/runtime/event_ring.h"
#include "aspen/runtime/program.h"

namespace aspen {

struct WorkerEvent {
  using Time = std::chrono::steady_clock::time_point;
  enum class Kind : std::uint8_t {
    kStep,
    kUpdate,
    kExchange,  // adds up gradients of replicas, or refreshes copies of variables
    kGiven,     // gives variables to the host
  };
  Kind kind = Kind::kStep;
  std::int32_t task = -1;         // in its section
  std::int64_t call = 0;          // number of the call
  std::int64_t micro_batch = -1;  // of the call
  // Inputs are there, ops of the backward pass begin, all instructions have run: one after the other, and all equal to
  // the begin for what is no task.
  Time begin, received, backward, computed, end;
  std::int64_t durations = -1;  // number of the first of its instructions in WorkerRecord::durations; -1: not taken
};

// Of one instruction, in one replica.
struct InstructionTotal {
  std::int64_t calls = 0, nanoseconds = 0, shortest = 0, longest = 0;
  void add(std::int64_t duration) {
    shortest = calls == 0 ? duration : std::min(shortest, duration);
    longest = std::max(longest, duration);
    nanoseconds += duration;
    ++calls;
  }
};

struct RecordLimits {
  std::size_t events = 1 << 13;     // of all workers together
  std::size_t durations = 1 << 15;  // likewise
  std::size_t calls = 1 << 13;
};

class WorkerRecord {
 public:
  using Clock = std::chrono::steady_clock;

  WorkerRecord(std::size_t num_events, std::size_t num_durations, std::size_t num_instructions)
      : events(num_events), durations(num_durations), totals(num_instructions) {}

  // -- called by the worker, around the instructions of a task ------------------------------------------------------
  void begin_instructions(Clock::time_point now, std::size_t first_total, std::size_t first_backward) {
    times_ = times_call_ && durations.end() < end_of_call_;
    first_duration_ = times_ ? static_cast<std::int64_t>(durations.end()) : -1;
    total_ = totals.data() + first_total;
    first_backward_ = first_backward;
    last_ = backward_ = now;
  }
  void end_instruction(std::size_t place) {
    const bool is_last_of_forward = place + 1 == first_backward_;
    if (!times_ && !is_last_of_forward) return;
    const auto now = Clock::now();
    if (is_last_of_forward) backward_ = now;
    if (!times_) return;
    const std::int64_t duration = std::chrono::nanoseconds(now - last_).count();
    durations.push(duration);
    total_[place].add(duration);
    last_ = now;
  }
  void end_task(WorkerEvent event) {
    event.call = call_;
    event.backward = backward_;
    event.durations = first_duration_;
    events.push(event);
  }
  // Something else than a task.
  void add(WorkerEvent::Kind kind, std::int64_t micro_batch, Clock::time_point begin, Clock::time_point end) {
    events.push({.kind = kind,
                 .call = call_,
                 .micro_batch = micro_batch,
                 .begin = begin,
                 .received = begin,
                 .backward = begin,
                 .computed = begin,
                 .end = end});
  }

  // -- called between calls -------------------------------------------------------------------------------------------
  void begin_call(std::int64_t call, bool times_instructions);
  std::int64_t num_timed() const { return static_cast<std::int64_t>(durations.end() - begin_of_call_); }

  EventRing<WorkerEvent> events;
  EventRing<std::int64_t> durations;     // nanoseconds
  std::vector<InstructionTotal> totals;  // by instruction of the device: those of its step tasks, then of its updates

 private:
  std::int64_t call_ = 0;
  bool times_call_ = false, times_ = false;
  std::uint64_t begin_of_call_ = 0, end_of_call_ = 0;  // durations of the call, at most
  std::int64_t first_duration_ = -1;
  InstructionTotal* total_ = nullptr;
  std::size_t first_backward_ = 0;
  Clock::time_point last_, backward_;
};

struct RecordedWorker {
  std::size_t replica = 0, device = 0, crew = 0, num_threads = 1;
  bool operator==(const RecordedWorker&) const = default;
};

struct RecordedCall {
  std::chrono::steady_clock::time_point begin, end;
  std::int64_t number = 0, micro_batches = 0;  // of one replica
  std::chrono::nanoseconds loading{0};         // since the call before
  bool is_finished = false;                    // false: an error or Ctrl-C ended it
};

class RunRecorder {
 public:
  using Clock = WorkerRecord::Clock;

  struct Hooks {
    // What the process has waited for its data so far; nullptr: nobody knows.
    std::function<std::chrono::nanoseconds()> loading;
    // After every call, on the thread of the caller, before anybody else calls.
    std::function<void()> after_call;
  };
  explicit RunRecorder(Hooks hooks = {}, RecordLimits limits = {});

  // -- called by the executor -----------------------------------------------------------------------------------------
  // Makes room. What workers like these did before is still there.
  void prepare(const Program& program, const std::vector<RecordedWorker>& workers);
  WorkerRecord& record(std::size_t worker) { return records_[worker]; }
  void begin_call(Clock::time_point begin, std::int64_t micro_batches);
  void end_call(Clock::time_point end, bool is_finished);

  // A call is under way; asked by other threads.
  bool is_running() const { return is_running_.load(); }

  // -- read between calls ---------------------------------------------------------------------------------------------
  const std::vector<RecordedWorker>& workers() const { return workers_; }
  const std::vector<WorkerRecord>& records() const { return records_; }
  const EventRing<RecordedCall>& calls() const { return calls_; }

 private:
  bool should_time(Clock::time_point now) const;

  Hooks hooks_;
  RecordLimits limits_;
  std::vector<RecordedWorker> workers_;
  std::vector<WorkerRecord> records_;
  EventRing<RecordedCall> calls_;
  RecordedCall current_;
  std::chrono::nanoseconds loading_before_{0}, clock_cost_{0};
  // Of the last call whose instructions were timed.
  std::int64_t num_timed_calls_ = 0, stamps_of_timed_ = 0;
  Clock::time_point end_of_timed_;
  bool is_timed_ = false;
  std::atomic<bool> is_running_{false};
};

}  // namespace aspen
