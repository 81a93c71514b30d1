// What the kernels of attention and its gradient know of their operands.
#pragma once

#include <algorithm>
#include <cstdint>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/attention/attention.h"

namespace aspen {

inline std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// q (batch, rows, heads, depth), k (batch, keys, heads, depth), v (batch, keys, heads, width).
struct AttentionShape {
  explicit AttentionShape(const KernelRequest& request) {
    const Shape &q = request.inputs[0].type.shape, &v = request.inputs[2].type.shape;
    batch = q[0], rows = q[1], heads = q[2], depth = q[3], keys = v[1], width = v[3];
  }
  std::int64_t matrices() const { return batch * heads; }
  std::int64_t scores() const { return matrices() * rows * keys; }
  // Whether keys are turned into panels: fewer rows are multiplied from where keys and values lie.
  bool turns_keys() const { return rows >= kFewRows; }
  // Of all operands and the result.
  std::int64_t elements() const { return matrices() * (rows + keys) * (depth + width); }
  // Where head i of all samples begins in a tensor with so many rows of this size.
  std::int64_t place_of(std::int64_t i, std::int64_t tensor_rows, std::int64_t size) const {
    return (i / heads * tensor_rows * heads + i % heads) * size;
  }

  static constexpr std::int64_t kFewRows = 8;
  std::int64_t batch = 0, rows = 0, heads = 0, depth = 0, keys = 0, width = 0;
};

// What is done to a row of scores: something is added, or some are replaced, or neither.
struct MaskRow {
  const float* added = nullptr;
  const std::uint8_t* hides = nullptr;
  float fill = 0;
};

// How the mask lies, which is operand `input`.
class MaskLayout {
 public:
  MaskLayout(const KernelRequest& request, std::size_t input, const AttentionShape& s)
      : fill_(static_cast<float>(request.attrs.as<AttentionAttrs>().fill)), shape_heads_(s.heads) {
    if (request.inputs.size() <= input || !request.inputs[input].present) return;
    const Shape& mask = request.inputs[input].type.shape;
    is_bool_ = request.inputs[input].type.dtype == DType::kBool;
    row_ = mask[2] == 1 ? 0 : mask[3];
    matrix_ = mask[2] * mask[3];
    heads_ = mask[1];
    samples_together_ = s.batch / mask[0];
    heads_together_ = s.heads / mask[1];
  }

  // Of head i of all samples; `mask` may be nullptr.
  MaskRow row(const void* mask, std::int64_t i, std::int64_t row) const {
    if (mask == nullptr) return {};
    const std::int64_t sample = i / shape_heads_ / samples_together_, head = i % shape_heads_ / heads_together_;
    const std::int64_t begin = (sample * heads_ + head) * matrix_ + row * row_;
    if (is_bool_) return {.hides = static_cast<const std::uint8_t*>(mask) + begin, .fill = fill_};
    return {.added = static_cast<const float*>(mask) + begin};
  }

 private:
  float fill_;
  std::int64_t shape_heads_;
  bool is_bool_ = false;
  std::int64_t row_ = 0, matrix_ = 0;  // numbers from one to the next
  std::int64_t heads_ = 1;
  std::int64_t samples_together_ = 1, heads_together_ = 1;
};

// Rows of query that are taken at a time: so many that their scores, which with their keys and values are to stay in
// the second cache level, are about as many as fit, in whole blocks of gemm_rows.
inline std::int64_t rows_in_cache(std::int64_t score_row) {
  constexpr std::int64_t kCachedScores = 1 << 16, kRowsOfBlocks = 24;
  const std::int64_t most = kCachedScores / score_row;
  return most < kRowsOfBlocks ? std::max(AttentionShape::kFewRows, most) : most / kRowsOfBlocks * kRowsOfBlocks;
}

// Rows of scores: those of a power of two would drive each other out of the cache.
inline std::int64_t score_row_of(const AttentionShape& s) { return rounded_up(s.keys, 16) + 16; }

// Rows of queries whose scores are made together.
struct ScoreBlock {
  std::int64_t rows;
  float scale;
  std::int64_t score_row;  // floats from the scores of one to those of the next
};

// The scores of a head without their mask. Attention and its gradient make them here, and they are rounded as they are
// stored: a weight that is made again has the bits it had. `keys` lie in panels if the shape turns them; `scales`: room
// for a number for each row.
void make_scores(const AttentionShape& s, const ScoreBlock& block, const float* q, const float* keys, float* scales,
                 float* scores);

// Copies rows that lie `stride` floats apart, one behind the other.
void gather_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t size, float* to);

void register_attention_grad_cpu(KernelRegistry& kernels);

}  // namespace aspen
