// One head at a time: its keys are turned into panels and its values laid one behind the other, then blocks of query
// rows pass by. The scores of a block stay in the cache until they have become sums of values, which are divided by the
// sum of their weights last.
#include "aspen/ops/attention/attention.h"

#include <algorithm>
#include <cstring>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/gemm.h"
#include "aspen/backends/cpu/slots.h"
#include "aspen/backends/cpu/widened.h"

namespace aspen {
namespace {

// What is done to a row of scores: something is added, or some are replaced, or neither.
struct MaskRow {
  const float* added = nullptr;
  const std::uint8_t* hides = nullptr;
  float fill = 0;
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/attention/attention_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// q (batch, rows, heads, depth), k (batch, keys, heads, depth), v (batch, keys, heads, width).
struct AttentionShape {
  explicit AttentionShape(const KernelRequest& request) {
    const Shape &q = request.inputs[0].type.shape, &v = request.inputs[2].type.shape;
    batch = q[0], rows = q[1], heads = q[2], depth = q[3], keys = v[1], width = v[3];
  }
  std::int64_t matrices() const { return batch * heads; }
  std::int64_t scores() const { return matrices() * rows * keys; }
  // Of all operands and the result.
  std::int64_t elements() const { return matrices() * (rows + keys) * (depth + width); }

  std::int64_t batch = 0, rows = 0, heads = 0, depth = 0, keys = 0, width = 0;
};

// How the mask lies.
struct MaskLayout {
  MaskLayout(const KernelRequest& request, const AttentionShape& s) {
    if (request.inputs.size() < 4 || !request.inputs[3].present) return;
    const Shape& mask = request.inputs[3].type.shape;
    is_bool = request.inputs[3].type.dtype == DType::kBool;
    row = mask[2] == 1 ? 0 : mask[3];
    matrix = mask[2] * mask[3];
    heads = mask[1];
    samples_together = s.batch / mask[0];
    heads_together = s.heads / mask[1];
  }

  std::int64_t begin(std::int64_t sample, std::int64_t head) const {
    return (sample / samples_together * heads + head / heads_together) * matrix;
  }

  bool is_bool = false;
  std::int64_t row = 0, matrix = 0;  // numbers from one to the next
  std::int64_t heads = 1;
  std::int64_t samples_together = 1, heads_together = 1;
};

class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(const KernelRequest& request) : s_(request), mask_(request, s_) {
    const auto& attrs = request.attrs.as<AttentionAttrs>();
    scale_ = static_cast<float>(attrs.scale);
    fill_ = static_cast<float>(attrs.fill);
    const double products = static_cast<double>(s_.scores()) * static_cast<double>(s_.depth + s_.width);
    const double cost = kMultiplyAddCost * products + kMathCost * static_cast<double>(s_.scores());
    score_row_ = rounded_up(s_.keys, 16) + 16;  // rows of a power of two would drive each other out of the cache
    block_rows_ = rows_of_blocks(cost);
    blocks_ = (s_.rows + block_rows_ - 1) / block_rows_;
    turns_keys_ = block_rows_ >= kFewRows;
    copies_values_ = block_rows_ >= kFewRows && s_.heads > 1;
    const std::int64_t panels = rounded_up(s_.keys, gemm_panel_width()) * s_.depth;
    values_at_ = turns_keys_ ? rounded_up(panels, 16) : 0;
    scores_at_ = values_at_ + (copies_values_ ? rounded_up(s_.keys * s_.width, 16) : 0);
    sums_at_ = scores_at_ + block_rows_ * score_row_;
    floats_ = sums_at_ + rounded_up(block_rows_, 16);
    // The memory of chunks that may run at the same time is to be little beside that of operands.
    const std::int64_t items = s_.matrices() * blocks_;
    const std::int64_t most = std::max(kFewChunks, s_.elements() / 4 / floats_);
    chunks_ = cut(items, cost, {.least = (items + most - 1) / most});
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(chunks_.count() * floats_) * sizeof(float);
  }

  void run(const KernelArgs& args) const override {
    Slots slots;
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      const Slots::Held slot(slots);
      float* memory = static_cast<float*>(args.workspace) + static_cast<std::int64_t>(slot.index()) * floats_;
      std::int64_t prepared = -1;
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
        const Head head = head_of(args, i / blocks_);
        if (i / blocks_ != prepared) prepare(head, memory);
        prepared = i / blocks_;
        compute(head, i % blocks_ * block_rows_, memory);
      }
    });
  }

 private:
  // Fewer rows than this are multiplied from where keys and values lie.
  static constexpr std::int64_t kFewRows = 8;
  // Scores of a block, which with their keys and values are to stay in the second cache level, and rows of whole blocks
  // of gemm_rows.
  static constexpr std::int64_t kCachedScores = 1 << 16, kRowsOfBlocks = 24;

  // Operands of one head of one sample.
  struct Head {
    const float *q, *k, *v;
    const void* mask;  // or nullptr
    std::int64_t mask_begin;
    float* y;
  };

  std::int64_t rows_of_blocks(double cost) const {
    std::int64_t most = kCachedScores / score_row_;
    most = most < kRowsOfBlocks ? std::max(kFewRows, most) : most / kRowsOfBlocks * kRowsOfBlocks;
    const std::int64_t parts = worthwhile_parts(cost), each = (parts + s_.matrices() - 1) / s_.matrices();
    return std::min({s_.rows, most, rounded_up((s_.rows + each - 1) / each, kFewRows)});
  }

  Head head_of(const KernelArgs& args, std::int64_t i) const {
    const std::int64_t sample = i / s_.heads, head = i % s_.heads;
    auto at = [&](std::int64_t rows, std::int64_t size) { return (sample * rows * s_.heads + head) * size; };
    return {static_cast<const float*>(args.inputs[0]) + at(s_.rows, s_.depth),
            static_cast<const float*>(args.inputs[1]) + at(s_.keys, s_.depth),
            static_cast<const float*>(args.inputs[2]) + at(s_.keys, s_.width),
            args.inputs.size() < 4 ? nullptr : args.inputs[3],
            mask_.begin(sample, head),
            static_cast<float*>(args.outputs[0]) + at(s_.rows, s_.width)};
  }

  // What all rows of queries read.
  void prepare(const Head& head, float* memory) const {
    if (turns_keys_) turn_into_panels({.n = s_.keys, .k = s_.depth, .b_row = s_.heads * s_.depth}, head.k, memory);
    if (!copies_values_) return;
    const std::size_t bytes = static_cast<std::size_t>(s_.width) * sizeof(float);
    for (std::int64_t t = 0; t < s_.keys; ++t) {
      std::memcpy(memory + values_at_ + t * s_.width, head.v + t * s_.heads * s_.width, bytes);
    }
  }

  void compute(const Head& head, std::int64_t first, float* memory) const {
    const std::int64_t rows = std::min(block_rows_, s_.rows - first), query_row = s_.heads * s_.depth;
    const float* q = head.q + first * query_row;
    float *scores = memory + scores_at_, *sums = memory + sums_at_;
    GemmShape by_keys{rows, s_.keys, s_.depth, query_row, 1, query_row, score_row_};
    if (turns_keys_) {
      by_keys.b_row = gemm_panel_width();
      by_keys.b_panel = s_.depth * gemm_panel_width();
      gemm_rows(by_keys, q, memory, scores);
    } else {
      gemm_columns(by_keys, q, head.k, scores);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      const MaskRow mask = mask_row(head, first + i);
      sums[i] = 1.0f / ASPEN_BEST(weigh_scores)(scores + i * score_row_, s_.keys, scale_, mask);
    }
    const std::int64_t y_row = s_.heads * s_.width, v_row = copies_values_ ? s_.width : y_row;
    const Epilogue divides{.scale = sums};
    gemm_rows({rows, s_.width, s_.keys, score_row_, 1, v_row, y_row}, scores,
              copies_values_ ? memory + values_at_ : head.v, head.y + first * y_row, {.epilogue = &divides});
  }

  MaskRow mask_row(const Head& head, std::int64_t row) const {
    if (head.mask == nullptr) return {};
    const std::int64_t begin = head.mask_begin + row * mask_.row;
    if (mask_.is_bool) return {.hides = static_cast<const std::uint8_t*>(head.mask) + begin, .fill = fill_};
    return {.added = static_cast<const float*>(head.mask) + begin};
  }

  AttentionShape s_;
  MaskLayout mask_;
  float scale_ = 1, fill_ = 0;
  std::int64_t score_row_ = 0, block_rows_ = 0, blocks_ = 0;
  bool turns_keys_ = false, copies_values_ = false;
  std::int64_t values_at_ = 0, scores_at_ = 0, sums_at_ = 0, floats_ = 0;  // in the memory of a chunk
  Chunks chunks_;
};

std::unique_ptr<Kernel> make_attention(const KernelRequest& request, std::string& why) {
  const AttentionShape shape(request);
  if (request.inputs[0].type.dtype != DType::kF32 || shape.scores() * shape.depth * shape.width == 0) {
    why = fmt::format("attention: the vector loops take f32 with at least one element, not {}",
                      to_string(request.inputs[0].type));
    return nullptr;
  }
  return std::make_unique<AttentionKernel>(request);
}

}  // namespace

void register_attention_cpu(KernelRegistry& kernels) { add_with_half(kernels, "attention", make_attention); }

}  // namespace aspen
