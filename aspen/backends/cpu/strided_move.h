// StridedMove: moves elements between two layouts of one shape, in vectors and on the threads of the device. Planned
// when a kernel is made; running it allocates nothing. Elements are opaque: a plan serves every type of a size of 1, 2,
// 4 or 8 bytes. Called by the kernels of shape; what is merged and turned follows from shapes and strides alone.
#pragma once

#include <cstddef>
#include <vector>

#include "aspen/backends/cpu/chunks.h"

namespace aspen {

// Two axes of a move; strides count elements. Columns are the closest in the target.
struct MovePlane {
  struct Axis {
    std::int64_t extent = 1, from = 1, to = 1;
  };
  Axis row, column;
};

// Moves the elements of a plane whose first one is at `from` and goes to `to`; they need not be aligned.
using PlaneLoop = void (*)(const MovePlane& plane, const std::byte* from, std::byte* to);

class StridedMove {
 public:
  // As StridedCopy of the reference: element (i, j, ...) is read at sum(i * from_strides) and written at
  // sum(i * to_strides).
  StridedMove(std::size_t element_size, const Shape& shape, const std::vector<std::int64_t>& from_strides,
              const std::vector<std::int64_t>& to_strides);

  // `from` and `to` point at the element (0, 0, ...); the two regions do not overlap.
  void run(const KernelArgs& args, const void* from, void* to) const;

 private:
  using Axis = MovePlane::Axis;
  enum class Cut { kOthers, kRows, kColumns };

  void fold_short_runs(std::vector<Axis>& axes);
  void choose_plane(std::vector<Axis> axes);
  void cut_work();

  std::int64_t element_size_;
  PlaneLoop loop_ = nullptr;
  MovePlane plane_;
  StridedRows<2> others_;  // the walk over all axes but those of the plane
  Cut cut_ = Cut::kOthers;
  Chunks chunks_;
};

}  // namespace aspen
