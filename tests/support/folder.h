// A folder of a test's own.
#pragma once

#include <stdlib.h>  // mkdtemp

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>

namespace aspen::testing {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "aspen_test_XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const char* name = "model.poptorch") const { return (path / name).string(); }
  std::size_t size() const {  // in files
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator()));
  }
  std::filesystem::path path;
};

}  // namespace aspen::testing
