// SeparableMap: planes whose elements are weighted sums of the elements of other planes, with weights that are products
// of one factor per axis: interpolation and averages over windows, and their gradients, whose taps are turned round.
// Computed one axis at a time, in rows, in float32. Planned when a kernel is made; running it allocates nothing. Called
// by the kernels of resize, pool and remap; the order of additions depends on the shape alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "aspen/backends/cpu/chunks.h"

namespace aspen {

struct WeightedTap {
  std::int64_t index;
  float weight;
};

// For every output along an axis the inputs it adds up.
using TapLists = std::vector<std::vector<WeightedTap>>;

// The gradient's: for every one of the inputs the outputs that read it.
TapLists turned(const TapLists& lists, std::int64_t inputs);

struct MapAxis {
  TapLists taps = {{{0, 1.0f}}};
  std::int64_t inputs = 1;
  std::int64_t step = 0;  // windows that move by as much from output to output; 0: other taps
  bool kept = false;      // every output is the input at its place, and no taps are listed
};

inline MapAxis kept_axis(std::int64_t size) { return {{}, size, 0, true}; }

MapAxis turned(const MapAxis& axis);

// By how much outputs are divided, or inputs before they are added up: the factor of the row times that of the column.
struct Divisors {
  enum class Of { kNothing, kOutputs, kInputs };
  Of of = Of::kNothing;
  std::vector<float> rows, columns;
};

// Taps along a row, as loops like them.
struct RowTaps {
  // Outputs begin, ..., end - 1 read the inputs at i * step + shift.
  struct Diagonal {
    std::int64_t begin, end, shift;
  };
  struct Tap {
    std::int64_t output, input;
    float weight;
  };
  std::int64_t size = 0;  // outputs
  bool is_kept = false;   // all outputs are the inputs at their places
  std::int64_t step = 1;
  std::vector<Diagonal> diagonals;  // all taps, if there are any
  // Else: equally many for every output, all first ones before all second ones, then those that are left.
  std::int64_t per_output = 0;
  bool is_copy = false;  // one each, of weight 1
  std::vector<std::int32_t> index;
  std::vector<float> weight;
  std::vector<Tap> left;
};

class SeparableMap {
 public:
  // Three axes of a plane, outermost first; what is not there is the default.
  SeparableMap(std::int64_t planes, MapAxis (&axes)[3], Divisors divisors = {});

  std::size_t workspace_bytes() const { return chunk_bytes() * static_cast<std::size_t>(chunks_.count()); }
  void run(const KernelArgs& args, const float* from, float* to) const;

 private:
  class Rows;
  void cut_work();
  std::size_t chunk_bytes() const;

  std::int64_t planes_, width_, source_rows_;  // of the source
  RowTaps along_;                              // the last axis
  TapLists rows_;                              // for every row of a plane of results, rows of the source
  Divisors divisors_;
  bool columns_first_ = false;  // the last axis before the others: where the source has fewer rows
  std::int64_t slots_ = 1;      // rows of the source that one result may need at a time
  std::int64_t bands_ = 1, band_rows_ = 1;
  Chunks chunks_;  // of the bands of all planes
};

// The kernel that takes its only input through the map to its only output, both f32.
std::unique_ptr<Kernel> make_map_kernel(SeparableMap map);

}  // namespace aspen
