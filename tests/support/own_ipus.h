// IPUs of a test's own: what it attaches is seen by nobody else, and nobody else by it.
#pragma once

#include <stdlib.h>  // setenv

#include <filesystem>

#include "aspen/ipus/meeting_place.h"
#include "tests/support/folder.h"

namespace aspen::testing {

// From now on; the same for all tests of the binary.
inline void use_own_ipus() {
  static const Folder folder;
  ::setenv("ASPEN_IPU_LOCK", folder.file("ipus.lock").c_str(), 1);
}

inline std::size_t num_ipu_files() {
  const std::filesystem::path folder = ipu_folder_path();
  if (!std::filesystem::exists(folder)) return 0;
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

}  // namespace aspen::testing
