#include "aspen/runtime/run_recorder.h"

#include <algorithm>
#include <utility>

namespace aspen {
namespace {

// Reading the clock takes at most one part in so many of the time.
constexpr int kPartsPerStamp = 100;

// Of taking one duration: clocks that are no more than a read of a register take 20 ns, others a microsecond.
std::chrono::nanoseconds measured_clock_cost() {
  constexpr int kReads = 256;
  const auto begin = WorkerRecord::Clock::now();
  auto last = begin;
  for (int i = 0; i < kReads; ++i) last = std::max(last, WorkerRecord::Clock::now());
  return std::chrono::nanoseconds(last - begin) / kReads + std::chrono::nanoseconds(5);
}

std::size_t num_instructions(const Program& program, std::size_t device) {
  std::size_t count = 0;
  for (const auto* tasks : {&program.step, &program.update}) {
    for (const Task& task : *tasks) count += task.device == device ? task.instructions.size() : 0;
  }
  return count;
}

}  // namespace

void WorkerRecord::begin_call(std::int64_t call, bool times_instructions) {
  call_ = call;
  times_call_ = times_instructions;
  begin_of_call_ = durations.end();
  // Half of the room: what is kept of the first call, and what is left beside it.
  end_of_call_ = begin_of_call_ + durations.capacity() / 2;
}

RunRecorder::RunRecorder(Hooks hooks, RecordLimits limits)
    : hooks_(std::move(hooks)), limits_(limits), calls_(limits.calls), clock_cost_(measured_clock_cost()) {}

void RunRecorder::prepare(const Program& program, const std::vector<RecordedWorker>& workers) {
  if (workers == workers_) return;
  workers_ = workers;
  records_.clear();
  constexpr std::size_t kLeast = 256;  // events that every worker has room for
  for (const RecordedWorker& worker : workers) {
    const std::size_t instructions = num_instructions(program, worker.device);
    records_.emplace_back(std::max(limits_.events / workers.size(), kLeast),
                          std::max(limits_.durations / workers.size(), 2 * instructions + kLeast), instructions);
  }
}

bool RunRecorder::should_time(Clock::time_point now) const {
  return num_timed_calls_ == 0 || now - end_of_timed_ >= kPartsPerStamp * stamps_of_timed_ * clock_cost_;
}

void RunRecorder::begin_call(Clock::time_point begin, std::int64_t micro_batches) {
  is_running_ = true;
  const std::chrono::nanoseconds loading = hooks_.loading ? hooks_.loading() : std::chrono::nanoseconds(0);
  current_ = {.begin = begin,
              .number = static_cast<std::int64_t>(calls_.end()),
              .micro_batches = micro_batches,
              .loading = loading - std::exchange(loading_before_, loading)};
  is_timed_ = should_time(begin);
  // The first call warms up: with another one beside it, it does not count.
  if (is_timed_ && num_timed_calls_ == 1) {
    for (WorkerRecord& record : records_) std::fill(record.totals.begin(), record.totals.end(), InstructionTotal());
  }
  for (WorkerRecord& record : records_) record.begin_call(current_.number, is_timed_);
}

void RunRecorder::end_call(Clock::time_point end, bool is_finished) {
  current_.end = end;
  current_.is_finished = is_finished;
  calls_.push(current_);
  if (is_timed_) {
    ++num_timed_calls_;
    end_of_timed_ = end;
    stamps_of_timed_ = 0;  // of the busiest: workers take theirs at the same time
    for (const WorkerRecord& record : records_) stamps_of_timed_ = std::max(stamps_of_timed_, record.num_timed());
  }
  if (current_.number == 0) {
    calls_.keep();
    for (WorkerRecord& record : records_) {
      record.events.keep();
      record.durations.keep();
    }
  }
  is_running_ = false;
  if (hooks_.after_call) hooks_.after_call();
}

}  // namespace aspen
