// The bytes behind one arena of a program: allocated once when a program is loaded, and zero. Large ones come from the
// system as zeros, which hands out a page when it is written for the first time: by the weights while a program is
// loaded, by the first step for the rest. A gigabyte that is written sooner only makes who waits for the program wait
// longer.
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

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  // Bytes in the 64-byte lines that no longer hold the pattern; only after Fill::kPattern.
  std::size_t touched_bytes() const;

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Free> memory_;
  std::byte* data_ = nullptr;  // in memory_, aligned
  std::size_t bytes_ = 0;
};

}  // namespace aspen
