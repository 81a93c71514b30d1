// MappedCopy: a tensor whose elements are elements of another one, found by lists of places along each axis, or a
// value. Written line by line, on the threads of the device. Planned when a kernel is made; running it allocates
// nothing. Called by the kernels of pad and remap.
#pragma once

#include <cstddef>
#include <vector>

#include "aspen/backends/cpu/chunks.h"

namespace aspen {

// Elements of a line of the result, and of the source or the value.
struct LineRun {
  std::int64_t count, to, to_step, from, from_step;
};

// What the lines of a result have in common, or equal pieces of them. Elements need not be aligned.
struct MappedLine {
  std::int64_t size = 0;              // elements
  std::int64_t begin = 0, pitch = 0;  // where it starts in a line, and the size of that
  std::vector<LineRun> fills, moves;  // with the value, and from the source; moves come behind fills
  std::byte value[8] = {};
};

// Writes `count` lines; line i takes its elements from base + sources[i], or is filled if that or base is negative.
using LineLoop = void (*)(const MappedLine& line, const std::byte* from, std::int64_t base, const std::int64_t* sources,
                          std::int64_t count, std::byte* to);

// places[i]: which element of the source stands at i of the result; -1: the value.
using Places = std::vector<std::int64_t>;

class MappedCopy {
 public:
  // `from` is the shape of the source; one list per axis. `value` has the size of an element.
  MappedCopy(std::size_t element_size, const Shape& from, const std::vector<Places>& places, const void* value);

  void run(const KernelArgs& args, const void* from, void* to) const;

 private:
  void cut_work(const MappedLine& line, std::int64_t num_lines);
  std::int64_t base_of(std::int64_t place) const;
  void write(const MappedLine& piece, const Chunk& lines, const std::byte* from, std::byte* to) const;

  std::int64_t element_size_;
  std::vector<MappedLine> pieces_;  // one, or those of lines that are too few to be dealt out whole
  // How far into the source each place along the axes around a line leads, outermost first, at least one; -1: the
  // value.
  std::vector<std::vector<std::int64_t>> sources_;
  LineLoop loop_ = nullptr;
  Chunks lines_, chunks_;  // all lines; what is dealt out: lines, or pieces
};

}  // namespace aspen
