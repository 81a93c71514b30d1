// The bytes behind one arena of a program: allocated once when a program is loaded, filled, and touched so that
// no page fault is left for the first step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace aspen {

class ArenaMemory {
 public:
  enum class Fill : std::uint8_t {
    kZero,
    kPattern,  // touched_bytes() can then tell what has been written
  };

  ArenaMemory() = default;
  // DeviceError naming `what` and the bytes when there is not enough memory.
  ArenaMemory(std::size_t bytes, const char* what, Fill fill = Fill::kZero);

  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

  // Bytes in the 64-byte lines that no longer hold the pattern; only after Fill::kPattern.
  std::size_t touched_bytes() const;

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace aspen
