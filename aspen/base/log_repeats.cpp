#include "aspen/base/log_repeats.h"

#include <map>
#include <mutex>
#include <string>

namespace aspen::log {
namespace {

class Repeats {
 public:
  void limit(std::optional<std::int64_t> times) {
    const std::lock_guard lock(mutex_);
    times_ = times;
    counts_.clear();
  }

  bool is_wanted(std::string_view line) {
    const std::lock_guard lock(mutex_);
    if (!times_) return true;
    const auto place = counts_.find(line);
    if (place == counts_.end()) {
      if (counts_.size() >= kMostLines) counts_.clear();
      counts_.emplace(line, 1);
      return *times_ > 0;
    }
    return ++place->second <= *times_;
  }

 private:
  static constexpr std::size_t kMostLines = 10000;  // a trace has lines without end

  std::mutex mutex_;
  std::optional<std::int64_t> times_;
  std::map<std::string, std::int64_t, std::less<>> counts_;
};

Repeats& repeats() {
  static auto* made = new Repeats;  // never destroyed: others may log until the process ends
  return *made;
}

}  // namespace

void limit_repeats(std::optional<std::int64_t> times) { repeats().limit(times); }

bool is_wanted(std::string_view line) { return repeats().is_wanted(line); }

}  // namespace aspen::log
