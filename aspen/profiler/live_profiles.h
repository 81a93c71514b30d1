// The profiles that a process is writing: each has a folder of its own, and all are finished when the process ends,
// whether their owners go or not.
#pragma once

#include <filesystem>

namespace aspen {

class LiveProfile {
 public:
  virtual ~LiveProfile() = default;
  virtual void finish() = 0;
};

namespace live_profiles {

// The folder or, while a profile has it, "<folder>_2" and so on. Until release() it is this profile's.
std::filesystem::path claim(const std::filesystem::path& folder, LiveProfile& profile);
void release(LiveProfile& profile);

}  // namespace live_profiles

}  // namespace aspen
