#include "aspen/compiler/kernel_trial.h"

#include <algorithm>
#include <memory>

#include "aspen/base/log.h"

namespace aspen {
namespace {

using Clock = KernelTrial::Clock;

constexpr int kRounds = 6, kLeastRounds = 3;  // in which candidates take turns; the shortest run counts
constexpr Clock::duration kLongEnough = std::chrono::milliseconds(20);    // of rounds, after the least
constexpr Clock::duration kWorthTiming = std::chrono::microseconds(100);  // shorter runs are timed by several
constexpr int kMostRepeats = 16;
constexpr double kHopeless = 1.5;  // times as long as the best, in two rounds: one may have been disturbed
constexpr double kClearly = 0.96;  // of what the one before takes: less than the noise is no reason

}  // namespace

struct KernelTrial::Entry {
  std::string name;
  std::unique_ptr<Kernel> kernel;
  Clock::duration shortest = Clock::duration::max();
};

KernelTrial::KernelTrial(const Backend& backend, Clock::time_point deadline) : backend_(backend), deadline_(deadline) {}

KernelTrial::~KernelTrial() = default;

std::vector<KernelTrial::Entry> KernelTrial::make_entries(const KernelRequest& request,
                                                          const std::vector<std::string>& names) const {
  std::vector<Entry> entries;
  for (const std::string& name : names) {
    KernelRequest named = request;
    named.candidate = name;
    try {
      entries.push_back({.name = name, .kernel = backend_.create_kernel(named)});
      entries.back().kernel->reserve(bench_.num_threads());
    } catch (const UserError& declined) {
      log::trace("[kernels] {}", declined.what());
    }
  }
  return entries;
}

bool KernelTrial::take_memory(const KernelRequest& request, const std::vector<Entry>& entries) {
  std::size_t workspace = 0, packed = 0;
  for (const Entry& entry : entries) {
    workspace = std::max(workspace, entry.kernel->workspace_bytes());
    packed = std::max(packed, entry.kernel->packed_bytes());
  }
  return bench_.take_memory(request, workspace, packed);
}

Clock::duration KernelTrial::run(const Entry& entry, int count) { return bench_.run(*entry.kernel, count); }

std::optional<std::string> KernelTrial::fastest(const KernelRequest& request, const std::vector<std::string>& names) {
  if (is_over()) return std::nullopt;
  std::vector<Entry> entries = make_entries(request, names);
  if (entries.size() == 1) return entries[0].name;
  if (entries.empty() || !take_memory(request, entries)) return std::nullopt;
  Clock::duration quickest = Clock::duration::max();
  for (const Entry& entry : entries) {  // for the caches
    quickest = std::min(quickest, run(entry, 1));
    if (is_over()) return std::nullopt;
  }
  const int repeats =
      static_cast<int>(std::clamp<Clock::rep>(kWorthTiming / std::max(quickest, Clock::duration(1)), 1, kMostRepeats));
  const auto begin = Clock::now();
  for (int round = 0; round < kRounds; ++round) {
    if (round >= kLeastRounds && (is_over() || Clock::now() - begin > kLongEnough)) break;
    for (Entry& entry : entries) {
      const bool is_hopeless = round > 1 && entry.shortest > kHopeless * quickest;
      if (!is_hopeless) entry.shortest = std::min(entry.shortest, run(entry, repeats));
      quickest = std::min(quickest, entry.shortest);
    }
    if (is_over() && round + 1 < kLeastRounds) return std::nullopt;
  }
  const Entry* best = &entries[0];
  std::string times;
  for (const Entry& entry : entries) {
    if (entry.shortest < kClearly * best->shortest) best = &entry;
    const std::chrono::duration<double, std::micro> microseconds = entry.shortest;
    times += fmt::format("{}{} {:.1f} us", times.empty() ? "" : ", ", entry.name, microseconds.count());
  }
  log::debug("[kernels] {}: {}; {} is taken", to_string(request), times, best->name);
  return best->name;
}

}  // namespace aspen
