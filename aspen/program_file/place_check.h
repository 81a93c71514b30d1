// What the checks of a program share: places in arenas, types, indices.
#pragma once

#include <cstddef>
#include <utility>

#include "aspen/program_file/byte_stream.h"
#include "aspen/runtime/program.h"

namespace aspen {

template <class... Args>
void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw FileError(format, std::forward<Args>(args)...);
}

void check_index(std::size_t index, std::size_t count, const char* what);
// Of at most 64 axes whose extents, those that are not 0, have a product that can be counted in bytes.
void check_type(const TensorType& type);

bool overlap(const BufferRef& a, const BufferRef& b);
bool is_same_place(const BufferRef& a, const BufferRef& b);

class PlaceCheck {
 public:
  explicit PlaceCheck(const Program& program) : program_(program) {}

  // An absent place has no bytes.
  void check(const BufferRef& place) const;
  // Present, of this size.
  void check(const BufferRef& place, std::size_t bytes) const;
  // Of a task on `device`: scratch memory and constants are those of its own device, and constants are not written.
  void check_read(const BufferRef& place, std::size_t bytes, std::size_t device) const;
  void check_written(const BufferRef& place, std::size_t bytes, std::size_t device) const;
  // Whether elements of the type may lie there: memory of a call is aligned like the input or output that it is.
  void check_elements(const BufferRef& place, DType type) const;

 private:
  std::size_t arena_bytes(const BufferRef& place) const;

  const Program& program_;
};

}  // namespace aspen
