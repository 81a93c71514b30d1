#include "aspen/backends/cpu/strided_move.h"

#define ASPEN_ISA_FILE "aspen/backends/cpu/strided_move.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

using Axis = MovePlane::Axis;

// Neighbours that walk as one are merged, axes of extent 1 dropped. Outermost first.
std::vector<Axis> merged_axes(const Shape& shape, const std::vector<std::int64_t>& from_strides,
                              const std::vector<std::int64_t>& to_strides) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    Axis axis{shape[i], from_strides[i], to_strides[i]};
    if (!axes.empty() && axes.back().from == axis.from * axis.extent && axes.back().to == axis.to * axis.extent) {
      axes.back() = {axes.back().extent * axis.extent, axis.from, axis.to};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

// For elements of 1, 2, 4, 8 or 16 bytes.
PlaneLoop plane_loop(std::size_t element_size) {
  switch (element_size) {
    case 1: return ASPEN_BEST(move_plane_1);
    case 2: return ASPEN_BEST(move_plane_2);
    case 4: return ASPEN_BEST(move_plane_4);
    case 8: return ASPEN_BEST(move_plane_8);
    default: return ASPEN_BEST(move_plane_16);
  }
}

}  // namespace

StridedMove::StridedMove(std::size_t element_size, const Shape& shape, const std::vector<std::int64_t>& from_strides,
                         const std::vector<std::int64_t>& to_strides)
    : element_size_(static_cast<std::int64_t>(element_size)) {
  if (numel(shape) == 0) return;  // no chunks
  std::vector<Axis> axes = merged_axes(shape, from_strides, to_strides);
  fold_short_runs(axes);
  choose_plane(std::move(axes));
  cut_work();
  loop_ = plane_loop(static_cast<std::size_t>(element_size_));
}

// A run of 2, 4, 8 or 16 bytes that stays together is one element of that size.
void StridedMove::fold_short_runs(std::vector<Axis>& axes) {
  if (axes.size() < 2 || axes.back().from != 1 || axes.back().to != 1) return;
  std::int64_t run = axes.back().extent, bytes = run * element_size_;
  if (bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16) return;
  auto divides = [&](const Axis& axis) { return axis.from % run == 0 && axis.to % run == 0; };
  if (!std::all_of(axes.begin(), axes.end() - 1, divides)) return;
  axes.pop_back();
  for (Axis& axis : axes) axis = {axis.extent, axis.from / run, axis.to / run};
  element_size_ = bytes;
}

// Columns: the last axis. Rows: the axis along which the source is contiguous, so that the plane is turned, or else the
// one before the last.
void StridedMove::choose_plane(std::vector<Axis> axes) {
  if (!axes.empty()) {
    plane_.column = axes.back();
    axes.pop_back();
  }
  if (!axes.empty()) {
    auto contiguous = std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.from == 1; });
    auto row = contiguous != axes.end() ? contiguous : axes.end() - 1;
    plane_.row = *row;
    axes.erase(row);
  }
  Shape extents;
  std::array<std::vector<std::int64_t>, 2> strides;
  for (const Axis& axis : axes) {
    extents.push_back(axis.extent);
    strides[0].push_back(axis.from);
    strides[1].push_back(axis.to);
  }
  others_ = StridedRows<2>(extents, strides);
}

void StridedMove::cut_work() {
  constexpr std::int64_t kMultiple = 64;  // keeps the squares of a turned plane whole
  std::int64_t rows = plane_.row.extent, columns = plane_.column.extent;
  double elements = static_cast<double>(others_.size() * rows * columns);
  double cost = elements * std::max(kMoveCost / 2, kMoveCost / 4 * static_cast<double>(element_size_));
  std::int64_t parts = worthwhile_parts(cost);
  if (others_.size() >= 2 * parts) {
    cut_ = Cut::kOthers;
    chunks_ = cut(others_.size(), cost);
  } else if (rows >= columns || rows >= 2 * parts * kMultiple) {
    cut_ = Cut::kRows;
    chunks_ = cut(rows, cost, {.multiple = plane_.row.from == 1 ? kMultiple : 1});
  } else {
    cut_ = Cut::kColumns;
    chunks_ = cut(columns, cost, {.multiple = kMultiple});
  }
}

void StridedMove::run(const KernelArgs& args, const void* from, void* to) const {
  for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
    Chunk planes = cut_ == Cut::kOthers ? chunk : Chunk{0, 0, others_.size()};
    MovePlane part = plane_;
    std::int64_t from_start = 0, to_start = 0;
    if (cut_ != Cut::kOthers) {
      Axis& axis = cut_ == Cut::kRows ? part.row : part.column;
      axis.extent = chunk.size();
      from_start = chunk.begin * axis.from;
      to_start = chunk.begin * axis.to;
    }
    others_.for_each_element_in(planes.begin, planes.end, [&](std::int64_t, const auto& offsets) {
      loop_(part, static_cast<const std::byte*>(from) + (from_start + offsets[0]) * element_size_,
            static_cast<std::byte*>(to) + (to_start + offsets[1]) * element_size_);
    });
  });
}

}  // namespace aspen
