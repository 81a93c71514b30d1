// Which buffers a program has in an arena, and from which instruction to which each is alive: found by following what
// instructions write and read. Used by describe_memory.
#pragma once

#include <cstdint>
#include <vector>

#include "aspen/runtime/program.h"

namespace aspen {

struct BufferLife {
  enum class Source : std::uint8_t { kInstruction, kWorkspace, kInput };
  BufferRef place;
  Source source = Source::kInstruction;
  const Instruction* producer = nullptr;  // nullptr: an input
  std::int64_t producer_row = -1;
  // Rows of instructions on the device of the arena; -1: none touches it there.
  std::int64_t first = -1, last = -1;
  bool is_output = false;  // leaves for the host
};

// Takes the instructions of the tasks of a program in their order and keeps those buffers of one arena alive that are
// still to be read. A result that takes the place of an operand is the same buffer.
class BufferLives {
 public:
  BufferLives(Arena arena, std::size_t owner) : arena_(arena), owner_(owner) {}

  // row: of the instruction; -1: it runs on another device.
  void input(const BufferRef& to, std::int64_t row);
  void instruction(const Instruction& instruction, std::int64_t row);
  void output(const BufferRef& from, std::int64_t row);
  // In the order they came to be.
  const std::vector<BufferLife>& lives() const { return lives_; }

 private:
  bool is_here(const BufferRef& place) const {
    return !place.absent && place.bytes != 0 && place.arena == arena_ && place.owner == owner_;
  }
  template <class F>
  void for_each_open(const BufferRef& place, const F& call);
  void touch(BufferLife& life, std::int64_t row) const;
  void read(const BufferRef& place, std::int64_t row);
  void open(BufferLife life, std::int64_t row);

  Arena arena_;
  std::size_t owner_;
  std::vector<BufferLife> lives_;
  std::vector<std::size_t> open_;  // those that may still be read
};

}  // namespace aspen
