// What the ops of this folder do, as copies between two strided regions; the kernels of all backends are made of these.
#pragma once

#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/shape/pad_range.h"

namespace aspen {

// Element (i, j, ...) of `shape` is read from the input at from + sum(i * from_strides) and written at
// to + sum(i * to_strides). All count elements; those of the source may be zero (broadcast) or negative (reverse).
struct Move {
  Shape shape;
  std::int64_t from = 0, to = 0;
  std::vector<std::int64_t> from_strides, to_strides;
};

// Reads the input through strides and writes the whole output.
inline Move view_move(const KernelRequest& request, std::int64_t from, std::vector<std::int64_t> strides) {
  const Shape& out = request.outputs[0].shape;
  return {out, from, 0, std::move(strides), contiguous_strides(out)};
}

inline Move transpose_move(const KernelRequest& request) {
  auto strides = contiguous_strides(request.inputs[0].type.shape);
  std::vector<std::int64_t> permuted;
  for (auto axis : request.attrs.as<TransposeAttrs>().permutation) permuted.push_back(strides[axis]);
  return view_move(request, 0, std::move(permuted));
}

inline Move broadcast_move(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].type.shape;
  auto strides = contiguous_strides(shape);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) strides[i] = 0;
  }
  strides.insert(strides.begin(), request.outputs[0].shape.size() - shape.size(), 0);
  return view_move(request, 0, std::move(strides));
}

inline Move reverse_move(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].type.shape;
  auto strides = contiguous_strides(shape);
  std::vector<bool> reversed(shape.size(), false);
  for (auto axis : request.attrs.as<ReverseAttrs>().axes) reversed[normalize_axis(axis, shape, "reverse")] = true;
  std::int64_t from = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!reversed[i]) continue;
    from += (shape[i] - 1) * strides[i];
    strides[i] = -strides[i];
  }
  return view_move(request, from, std::move(strides));
}

// The place of the first element of a slice, and the strides that walk it.
inline std::int64_t slice_walk(const SliceAttrs& attrs, std::vector<std::int64_t>& strides) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    offset += attrs.starts[i] * strides[i];
    strides[i] *= attrs.steps[i];
  }
  return offset;
}

inline Move slice_move(const KernelRequest& request) {
  auto strides = contiguous_strides(request.inputs[0].type.shape);
  auto from = slice_walk(request.attrs.as<SliceAttrs>(), strides);
  return view_move(request, from, std::move(strides));
}

// Of the update; the rest of the output is the first input.
inline Move slice_update_move(const KernelRequest& request) {
  const Shape& update = request.inputs[1].type.shape;
  auto strides = contiguous_strides(request.inputs[0].type.shape);
  auto to = slice_walk(request.attrs.as<SliceAttrs>(), strides);
  return {update, 0, to, contiguous_strides(update), std::move(strides)};
}

// Of the elements that are not cropped; the rest of the output is the value.
inline Move pad_move(const KernelRequest& request) {
  const auto& attrs = request.attrs.as<PadAttrs>();
  const Shape& x = request.inputs[0].type.shape;
  Move move{{}, 0, 0, contiguous_strides(x), contiguous_strides(request.outputs[0].shape)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    PadRange range = pad_range(attrs, i, x[i]);
    move.shape.push_back(range.count());
    move.from += range.begin * move.from_strides[i];
    move.to += range.target(range.begin) * move.to_strides[i];
    move.to_strides[i] *= range.step;
  }
  return move;
}

// One per input.
inline std::vector<Move> concat_moves(const KernelRequest& request) {
  const Shape& out = request.outputs[0].shape;
  auto axis = normalize_axis(request.attrs.as<ConcatAttrs>().axis, out, "concat");
  auto strides = contiguous_strides(out);
  std::vector<Move> moves;
  std::int64_t to = 0;
  for (const KernelInput& input : request.inputs) {
    const Shape& shape = input.type.shape;
    moves.push_back({shape, 0, to, contiguous_strides(shape), strides});
    to += shape[axis] * strides[axis];
  }
  return moves;
}

}  // namespace aspen
