#include "aspen/runtime/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "aspen/base/device_fault.h"
#include "aspen/runtime/cpu_share.h"
#include "aspen/runtime/spin.h"

namespace aspen {
namespace {

// Waits until value differs from old: first awake, then asleep, which `sleepers` counts. Asleep at once where a thread
// that stays awake would keep the one it waits for from its cpu.
std::uint32_t wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old, bool spins,
                         std::atomic<std::int32_t>& sleepers) {
  std::uint32_t now = old;
  auto has_changed = [&] { return (now = value.load()) != old; };
  if (spin_until(has_changed, spins ? kPatience : std::chrono::microseconds{0})) return now;
  sleepers.fetch_add(1);  // before it looks again: whoever changes the value afterwards sees a sleeper
  while (!has_changed()) value.wait(old, std::memory_order_acquire);
  sleepers.fetch_sub(1);
  return now;
}

// Whether helpers that sleep are worth waking. That takes the caller some microseconds and them tens, which is lost on
// a short piece of work now and then. So work earns what is spent on waking: all of its own time, against a part of the
// time between. After a long pause nothing is known, and one call in vain does not matter.
class WakeBudget {
 public:
  using Clock = std::chrono::steady_clock;

  void begin(Clock::time_point now) {
    const auto pause = now - end_;
    earned_ = pause > kLongPause ? kWorth : std::max(Clock::duration{0}, earned_ - pause / kShareOfPauses);
    begin_ = now;
  }
  bool is_worth() const { return earned_ >= kWorth; }
  void end(Clock::time_point now) {
    earned_ = std::min(kMost, earned_ + (now - begin_));
    end_ = now;
  }

 private:
  static constexpr Clock::duration kWorth = std::chrono::microseconds{50}, kMost = std::chrono::milliseconds{1},
                                   kLongPause = std::chrono::milliseconds{1};
  static constexpr int kShareOfPauses = 4;

  Clock::time_point begin_{}, end_{};
  Clock::duration earned_{};
};

std::size_t num_usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return std::thread::hardware_concurrency();
  return static_cast<std::size_t>(CPU_COUNT(&set));
}

void check(const std::vector<int>& cpus) {
  for (int cpu : cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) {
      throw UserError("[thread team] cpu {} does not exist; expected 0 <= cpu < {}.", cpu, CPU_SETSIZE);
    }
  }
}

// Of this thread in the team it helps; 0 in one that it has called.
thread_local std::size_t own_number = 0;

class SoloTeam final : public ThreadTeam {
 public:
  std::size_t num_threads() const override { return 1; }
  std::size_t this_thread() const override { return 0; }
  void run(std::int64_t num_chunks, const std::function<void(std::int64_t)>& work) override {
    std::exception_ptr error;
    for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
      try {
        work(chunk);
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
  }
};

// The chunks of a job are dealt out in ranges, one for each thread: what a thread has written in one job it is likely
// to read in the next, and to fetch it from another core takes longer than most work on it. Who is through with his
// range takes from those of others. There are no more ranges than chunks, and whoever has none stays out of the job.
//
// A range is published in its tickets: how many chunks are left to take, and the number of the job. Whoever lowers them
// by one owns a chunk and keeps the job alive until the chunk is counted in unfinished_; a helper that comes late finds
// nothing to take, or another job than it came for, and never looks at the fields of one that is over.
class Team final : public ThreadTeam {
 public:
  // callers_cpu: where the caller is taken to be until it is seen elsewhere; nothing: helpers stay where they are.
  Team(std::size_t num_threads, const std::vector<int>& cpus, std::optional<int> callers_cpu)
      : ranges_(num_threads), callers_cpu_(callers_cpu) {
    bool shares = cpus.empty() ? num_threads > num_usable_cpus() : num_threads > cpus.size() + 1;
    spins_ = !shares;
    if (callers_cpu) helper_cpus_ = cpus;
    try {
      for (std::size_t i = 0; i + 1 < num_threads; ++i) {
        helpers_.emplace_back([this, own = i + 1] { help(own); });
        if (!cpus.empty()) pin(helpers_.back(), cpus[i % cpus.size()]);
      }
    } catch (const std::system_error& e) {
      std::size_t started = helpers_.size();
      stop();
      throw DeviceFault(Repair::kDeviceReset, "a device computes with {} threads; the system gave {}: {}.", num_threads,
                        started + 1, e.what());
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Team() override { stop(); }

  std::size_t num_threads() const override { return helpers_.size() + 1; }
  std::size_t this_thread() const override { return own_number; }

  void run(std::int64_t num_chunks, const std::function<void(std::int64_t)>& work) override {
    if (num_chunks <= 0) return;
    if (num_chunks > std::numeric_limits<std::int32_t>::max()) {
      throw InternalError("{} chunks for one piece of work", num_chunks);
    }
    auto count = static_cast<std::uint32_t>(num_chunks);
    work_ = &work;
    count_ = count;
    unfinished_.store(count, std::memory_order_relaxed);
    const auto num_ranges = static_cast<std::uint32_t>(std::min<std::size_t>(count, ranges_.size()));
    ++job_;
    ranges_of_job_.store(std::uint64_t{job_} << 32 | num_ranges, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < num_ranges; ++i) {
      const std::uint32_t size = end_of_range(i) - (i == 0 ? 0 : end_of_range(i - 1));
      ranges_[i].tickets.store(std::uint64_t{job_} << 32 | size, std::memory_order_release);
    }
    if (count > 1) {
      if (callers_cpu_) make_way(sched_getcpu());
      call_helpers();
    }
    const std::size_t number_elsewhere = std::exchange(own_number, 0);
    take_chunks();
    own_number = number_elsewhere;
    for (std::uint32_t left = unfinished_.load(std::memory_order_acquire); left != 0;) {
      left = wait_while(unfinished_, left, spins_, waiting_callers_);
    }
    if (count > 1) budget_.end(WakeBudget::Clock::now());
    // What overflowed anywhere has overflowed in the work of the caller, who may look at the flag (overflow_watch.h).
    if (has_overflowed_.exchange(false, std::memory_order_relaxed)) std::feraiseexcept(FE_OVERFLOW);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  struct alignas(64) Range {
    std::atomic<std::uint64_t> tickets{0};  // number of the job << 32 | chunks left
  };

  // Of the job that runs; for those that own a chunk of it.
  std::uint32_t end_of_range(std::uint32_t range) const {
    const auto num_ranges = static_cast<std::uint32_t>(ranges_of_job_.load(std::memory_order_relaxed));
    return static_cast<std::uint32_t>(std::uint64_t{count_} * (range + 1) / num_ranges);
  }

  void help(std::size_t own) {
    own_number = own;
    for (std::uint32_t seen = 0;;) {
      seen = wait_while(calls_, seen, spins_, sleepers_);
      if (stopping_.load(std::memory_order_relaxed)) return;
      take_chunks();
    }
  }

  // The helper on the cpu where the caller now is goes to the one where it was.
  void make_way(int cpu) {
    if (cpu == *callers_cpu_) return;
    const auto found = std::find(helper_cpus_.begin(), helper_cpus_.end(), cpu);
    if (found == helper_cpus_.end()) return;
    try {
      pin(helpers_[static_cast<std::size_t>(found - helper_cpus_.begin())], *callers_cpu_);
      *found = std::exchange(*callers_cpu_, cpu);
    } catch (const DeviceError&) {
      callers_cpu_.reset();  // the process may no longer use it: what is left is the system's business
    }
  }

  // Those that are awake see the call; whoever is asleep is woken if that pays, and otherwise stays so.
  void call_helpers() {
    budget_.begin(WakeBudget::Clock::now());
    calls_.fetch_add(1);
    if (sleepers_.load() > 0 && budget_.is_worth()) calls_.notify_all();
  }

  void take_chunks() {
    const std::uint64_t of_job = ranges_of_job_.load(std::memory_order_relaxed);
    const auto num_ranges = static_cast<std::uint32_t>(of_job), own = static_cast<std::uint32_t>(own_number);
    if (own >= num_ranges) return;
    for (std::uint32_t i = 0; i < num_ranges; ++i) take_from((own + i) % num_ranges, of_job >> 32);
  }

  void take_from(std::uint32_t range, std::uint64_t job) {
    std::atomic<std::uint64_t>& tickets_left = ranges_[range].tickets;
    std::uint64_t tickets = tickets_left.load(std::memory_order_acquire);
    while (auto left = tickets >> 32 == job ? static_cast<std::uint32_t>(tickets) : 0) {
      if (!tickets_left.compare_exchange_weak(tickets, tickets - 1, std::memory_order_acquire)) continue;
      run_chunk(static_cast<std::int64_t>(end_of_range(range) - left));
      if (std::fetestexcept(FE_OVERFLOW) != 0) {
        std::feclearexcept(FE_OVERFLOW);
        has_overflowed_.store(true, std::memory_order_relaxed);
      }
      if (unfinished_.fetch_sub(1) == 1 && waiting_callers_.load() > 0) unfinished_.notify_one();
      tickets = tickets_left.load(std::memory_order_acquire);
    }
  }

  void run_chunk(std::int64_t chunk) {
    try {
      (*work_)(chunk);
    } catch (...) {
      std::lock_guard lock(error_mutex_);
      if (!error_ || chunk < error_chunk_) {
        error_ = std::current_exception();
        error_chunk_ = chunk;
      }
    }
  }

  void stop() {
    stopping_.store(true, std::memory_order_relaxed);
    calls_.fetch_add(1, std::memory_order_release);
    calls_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
  }

  bool spins_ = true;
  std::atomic<bool> stopping_{false};
  // Of the job that runs; written by run() before it publishes tickets.
  const std::function<void(std::int64_t)>* work_ = nullptr;
  std::uint32_t count_ = 0, job_ = 0;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::int64_t error_chunk_ = 0;
  std::atomic<bool> has_overflowed_{false};
  WakeBudget budget_;
  std::vector<Range> ranges_;  // by thread, the caller first
  std::optional<int> callers_cpu_;
  std::vector<int> helper_cpus_;  // where there is a caller's
  // Each on a cache line of its own: helpers watch the first while chunks are counted in the last.
  alignas(64) std::atomic<std::uint32_t> calls_{0};
  alignas(64) std::atomic<std::uint64_t> ranges_of_job_{1};  // number of the job << 32 | ranges
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};
  alignas(64) std::atomic<std::int32_t> sleepers_{0}, waiting_callers_{0};
  std::vector<std::thread> helpers_;
};

}  // namespace

std::unique_ptr<ThreadTeam> make_thread_team(std::size_t num_threads, std::vector<int> cpus) {
  if (num_threads == 0) throw InternalError("a team of no threads");
  check(cpus);
  if (num_threads == 1) return std::make_unique<SoloTeam>();
  return std::make_unique<Team>(num_threads, cpus, std::nullopt);
}

std::unique_ptr<ThreadTeam> make_team_around_caller(const std::vector<int>& cpus) {
  if (cpus.empty()) throw InternalError("a team of no threads");
  check(cpus);
  if (cpus.size() == 1) return std::make_unique<SoloTeam>();
  return std::make_unique<Team>(cpus.size(), std::vector(cpus.begin() + 1, cpus.end()), cpus.front());
}

}  // namespace aspen
