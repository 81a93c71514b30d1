// How the elements of a shape, and of operands that are read over it, are cut into tiles: whole rows as long as they
// are short, else pieces of a row. Follows from the shapes alone. Used by the kernel of groups.
#pragma once

#include <cstdint>
#include <vector>

#include "aspen/base/tensor_type.h"

namespace aspen {

// Where an operand is read: element (i, j, ...) of the shape at offset + sum(i * strides); a stride of 0 broadcasts.
struct TileOperand {
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
};

class Tiles {
 public:
  // About `elements` in a tile, at most half as many again. Axes are merged where all operands allow it.
  Tiles(const Shape& shape, const std::vector<TileOperand>& operands, std::int64_t elements);

  std::int64_t count() const { return num_outer_ * pieces_; }
  // Where a tile lies: which piece of the axis that is cut, and where along the axes before it. Who goes from one tile
  // to the next divides once.
  struct Place {
    std::int64_t outer = 0, piece = 0;
  };
  Place place(std::int64_t tile) const { return {tile / pieces_, tile % pieces_}; }
  Place after(Place at) const {
    return at.piece + 1 < pieces_ ? Place{at.outer, at.piece + 1} : Place{at.outer + 1, 0};
  }
  // All tiles are alike but for those at the end of the axis that is cut.
  bool is_tail(Place at) const { return tail_ != rows_ && at.piece == pieces_ - 1; }
  bool has_tail() const { return tail_ != rows_; }
  bool has_whole() const { return pieces_ > 1 || !has_tail(); }

  // Of the shape, in a tile.
  std::int64_t elements(bool is_tail) const { return (is_tail ? tail_ : rows_) * row_; }
  // Of operand k in a tile.
  Shape operand_shape(std::size_t k, bool is_tail) const;
  // Where its elements lie in a tile that is no tail, counted from the first: runs of one size, in the order of the
  // tile.
  struct Run {
    std::int64_t offset, size;
  };
  std::vector<Run> runs(std::size_t k) const;
  // In elements, from the beginning of each operand to a tile.
  void offsets(Place at, std::int64_t* of_operand) const;

 private:
  struct Axis {
    std::int64_t extent = 1;
    std::vector<std::int64_t> strides;  // by operand; 0: it broadcasts
  };

  void merge_axes(const Shape& shape, const std::vector<TileOperand>& operands);

  std::vector<std::int64_t> offsets_;  // by operand
  std::vector<Axis> axes_;             // merged, outermost first; at least one
  std::size_t cut_ = 0;                // the axis that tiles cut; they hold those after it whole
  std::int64_t row_ = 1;               // elements of the axes after it
  std::int64_t rows_ = 1, tail_ = 1, pieces_ = 1, num_outer_ = 1;
};

}  // namespace aspen
