// Turn: the right to make something that processes share, such as a program of a cache. One process has it at a time;
// the system takes it from a process that ends in any way.
#pragma once

#include <filesystem>

namespace aspen {

class Turn {
 public:
  // Waits for it, for minutes at most. Held through the file, which goes with it.
  explicit Turn(std::filesystem::path file);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool is_held() const { return descriptor_ >= 0; }  // false: others took too long, or the folder cannot be written
  bool has_waited() const { return has_waited_; }    // so that somebody else may have made it meanwhile

 private:
  bool is_in_place() const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  bool has_waited_ = false;
};

}  // namespace aspen
