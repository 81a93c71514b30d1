#include "aspen/runtime/thread_team.h"

#include <sched.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <exception>
#include <limits>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "aspen/base/device_fault.h"
#include "aspen/runtime/cpu_share.h"
#include "aspen/runtime/spin.h"

namespace aspen {
namespace {

// Waits until value differs from old: first awake, then asleep. Asleep at once where a thread that stays awake would
// keep the one it waits for from its cpu.
std::uint32_t wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old, bool spins) {
  std::uint32_t now = old;
  auto has_changed = [&] { return (now = value.load(std::memory_order_acquire)) != old; };
  if (spin_until(has_changed, spins ? kPatience : std::chrono::microseconds{0})) return now;
  while (!has_changed()) value.wait(old, std::memory_order_acquire);
  return now;
}

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

class SoloTeam final : public ThreadTeam {
 public:
  std::size_t num_threads() const override { return 1; }
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

// A job is published in tickets_: how many chunks are left to take, and the number of the job. Whoever lowers it by one
// owns a chunk and keeps the job alive until the chunk is counted in unfinished_; a helper that comes late finds
// nothing to take, or the next job, and never looks at the fields of one that is over.
class Team final : public ThreadTeam {
 public:
  Team(std::size_t num_threads, const std::vector<int>& cpus) {
    bool shares = cpus.empty() ? num_threads > num_usable_cpus() : num_threads > cpus.size() + 1;
    spins_ = !shares;
    try {
      for (std::size_t i = 0; i + 1 < num_threads; ++i) {
        helpers_.emplace_back([this] { help(); });
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

  void run(std::int64_t num_chunks, const std::function<void(std::int64_t)>& work) override {
    if (num_chunks <= 0) return;
    if (num_chunks > std::numeric_limits<std::int32_t>::max()) {
      throw InternalError("{} chunks for one piece of work", num_chunks);
    }
    auto count = static_cast<std::uint32_t>(num_chunks);
    work_ = &work;
    count_ = count;
    unfinished_.store(count, std::memory_order_relaxed);
    tickets_.store(std::uint64_t{++job_} << 32 | count, std::memory_order_release);
    if (count > 1) {
      calls_.fetch_add(1, std::memory_order_release);
      calls_.notify_all();
    }
    take_chunks();
    for (std::uint32_t left = unfinished_.load(std::memory_order_acquire); left != 0;) {
      left = wait_while(unfinished_, left, spins_);
    }
    // What overflowed anywhere has overflowed in the work of the caller, who may look at the flag (overflow_watch.h).
    if (has_overflowed_.exchange(false, std::memory_order_relaxed)) std::feraiseexcept(FE_OVERFLOW);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void help() {
    for (std::uint32_t seen = 0;;) {
      seen = wait_while(calls_, seen, spins_);
      if (stopping_.load(std::memory_order_relaxed)) return;
      take_chunks();
    }
  }

  void take_chunks() {
    std::uint64_t tickets = tickets_.load(std::memory_order_acquire);
    while (auto left = static_cast<std::uint32_t>(tickets)) {
      if (!tickets_.compare_exchange_weak(tickets, tickets - 1, std::memory_order_acquire)) continue;
      run_chunk(static_cast<std::int64_t>(count_ - left));
      if (std::fetestexcept(FE_OVERFLOW) != 0) {
        std::feclearexcept(FE_OVERFLOW);
        has_overflowed_.store(true, std::memory_order_relaxed);
      }
      if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
      tickets = tickets_.load(std::memory_order_acquire);
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
  // Each on a cache line of its own: helpers watch the first while chunks are taken from the second.
  alignas(64) std::atomic<std::uint32_t> calls_{0};
  alignas(64) std::atomic<std::uint64_t> tickets_{0};  // number of the job << 32 | chunks left
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};
  std::vector<std::thread> helpers_;
};

}  // namespace

std::unique_ptr<ThreadTeam> make_thread_team(std::size_t num_threads, std::vector<int> cpus) {
  if (num_threads == 0) throw InternalError("a team of no threads");
  check(cpus);
  if (num_threads == 1) return std::make_unique<SoloTeam>();
  return std::make_unique<Team>(num_threads, cpus);
}

}  // namespace aspen
