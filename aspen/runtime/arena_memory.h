// The bytes behind one arena of a program: allocated once when a program is loaded, zeroed, and touched so that
// no page fault is left for the first step.
#pragma once

#include <cstddef>
#include <memory>

namespace aspen {

class ArenaMemory {
 public:
  ArenaMemory() = default;
  // DeviceError naming `what` and the bytes when there is not enough memory.
  ArenaMemory(std::size_t bytes, const char* what);

  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace aspen
