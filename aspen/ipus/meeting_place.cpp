#include "aspen/ipus/meeting_place.h"

#include <sys/stat.h>

#include <cstdlib>

namespace aspen {
namespace {

const char* chosen_lock() {
  const char* chosen = std::getenv("ASPEN_IPU_LOCK");
  return chosen == nullptr || *chosen == '\0' ? nullptr : chosen;
}

bool is_folder(const char* path) {
  struct stat found {};
  return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

}  // namespace

std::string ipu_lock_path() {
  const char* chosen = chosen_lock();
  return chosen == nullptr ? "/tmp/aspen-ipus.lock" : chosen;
}

std::string ipu_folder_path() {
  const char* chosen = chosen_lock();
  if (chosen != nullptr) return std::string(chosen) + ".attached";
  return is_folder("/dev/shm") ? "/dev/shm/aspen-ipus" : "/tmp/aspen-ipus";
}

}  // namespace aspen
