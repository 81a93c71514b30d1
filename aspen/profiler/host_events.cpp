#include "aspen/profiler/host_events.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "aspen/runtime/event_ring.h"

namespace aspen::host_events {
namespace {

constexpr std::size_t kMost = 4096;

struct Event {
  std::string track, name;
  Clock::time_point begin, end;
};

std::atomic<int> num_scopes{0};
std::atomic<std::int64_t> loading_nanoseconds{0};

struct Log {
  std::mutex mutex;
  EventRing<Event> events{kMost};
};

// Never destroyed: threads may end after the process has begun to.
Log& event_log() {
  static Log& made = *new Log;
  return made;
}

}  // namespace

bool is_on() { return num_scopes.load(std::memory_order_relaxed) > 0; }

Scope::Scope() { ++num_scopes; }
Scope::~Scope() { --num_scopes; }

void add(std::string track, std::string name, Clock::time_point begin, Clock::time_point end) {
  Log& log = event_log();
  const std::lock_guard<std::mutex> turn(log.mutex);
  log.events.push({std::move(track), std::move(name), begin, end});
}

std::vector<profile::HostEvent> since(Clock::time_point origin) {
  Log& log = event_log();
  std::vector<profile::HostEvent> result;
  const std::lock_guard<std::mutex> turn(log.mutex);
  log.events.for_each([&](const Event& event) {
    if (event.end <= origin) return;
    const auto begin = std::max(event.begin, origin);
    result.push_back({event.track, event.name, std::chrono::nanoseconds(begin - origin).count(),
                      std::chrono::nanoseconds(event.end - begin).count()});
  });
  return result;
}

void add_loading(Clock::duration time) { loading_nanoseconds += std::chrono::nanoseconds(time).count(); }

std::chrono::nanoseconds loading() { return std::chrono::nanoseconds(loading_nanoseconds.load()); }

}  // namespace aspen::host_events
