#include "aspen/profiler/live_profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

namespace aspen::live_profiles {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<LiveProfile*, std::filesystem::path> folders;
};

// Never destroyed: profiles may go after it would.
Registry& registry() {
  static Registry& made = *new Registry;
  return made;
}

void finish_all() {
  const std::lock_guard<std::mutex> turn(registry().mutex);  // none of them goes meanwhile
  for (const auto& [profile, folder] : registry().folders) profile->finish();
}

}  // namespace

std::filesystem::path claim(const std::filesystem::path& folder, LiveProfile& profile) {
  static const int is_registered = std::atexit(finish_all);
  static_cast<void>(is_registered);
  Registry& all = registry();
  const std::lock_guard<std::mutex> turn(all.mutex);
  const auto is_taken = [&](const std::filesystem::path& path) {
    return std::any_of(all.folders.begin(), all.folders.end(), [&](const auto& entry) { return entry.second == path; });
  };
  std::filesystem::path chosen = std::filesystem::absolute(folder).lexically_normal();
  const std::string name = chosen.filename().string();
  for (int number = 2; is_taken(chosen); ++number) chosen.replace_filename(fmt::format("{}_{}", name, number));
  all.folders.emplace(&profile, chosen);
  return chosen;
}

void release(LiveProfile& profile) {
  const std::lock_guard<std::mutex> turn(registry().mutex);
  registry().folders.erase(&profile);
}

}  // namespace aspen::live_profiles
