// One head at a time: its keys are turned into panels and its values laid one behind the other, then blocks of query
// rows pass by. The scores of a block stay in the cache until they have become sums of values, which are divided by the
// sum of their weights last.
#include "aspen/ops/attention/attention.cpu.h"

#include <algorithm>
#include <cstring>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/gemm.h"
#include "aspen/backends/cpu/widened.h"

#define ASPEN_ISA_FILE "aspen/ops/attention/attention_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {

void gather_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t size, float* to) {
  const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(float);
  for (std::int64_t i = 0; i < rows; ++i) std::memcpy(to + i * size, from + i * stride, bytes);
}

void make_scores(const AttentionShape& s, const ScoreBlock& block, const float* q, const float* keys, float* scales,
                 float* scores) {
  const std::int64_t row = s.heads * s.depth, panel = gemm_panel_width();
  if (s.turns_keys()) {
    std::fill_n(scales, block.rows, block.scale);
    const Epilogue scaled{.scale = scales};
    gemm_rows({block.rows, s.keys, s.depth, row, 1, panel, block.score_row, s.depth * panel}, q, keys, scores,
              {.epilogue = block.scale == 1 ? nullptr : &scaled});
    return;
  }
  gemm_columns({block.rows, s.keys, s.depth, row, 1, row, block.score_row}, q, keys, scores);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    ASPEN_BEST(scale_line)(scores + i * block.score_row, s.keys, block.scale);
  }
}

namespace {

class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(const KernelRequest& request) : s_(request), mask_(request, 3, s_) {
    const auto& attrs = request.attrs.as<AttentionAttrs>();
    scale_ = static_cast<float>(attrs.scale);
    const double products = static_cast<double>(s_.scores()) * static_cast<double>(s_.depth + s_.width);
    const double cost = kMultiplyAddCost * products + kMathCost * static_cast<double>(s_.scores());
    score_row_ = score_row_of(s_);
    block_rows_ = rows_of_blocks(cost);
    blocks_ = (s_.rows + block_rows_ - 1) / block_rows_;
    copies_values_ = s_.turns_keys() && s_.heads > 1;
    const std::int64_t panels = rounded_up(s_.keys, gemm_panel_width()) * s_.depth;
    values_at_ = s_.turns_keys() ? rounded_up(panels, 16) : 0;
    scores_at_ = values_at_ + (copies_values_ ? rounded_up(s_.keys * s_.width, 16) : 0);
    factors_at_ = scores_at_ + block_rows_ * score_row_;
    floats_ = factors_at_ + rounded_up(block_rows_, 16);
    // The memory of chunks that may run at the same time is to be little beside that of operands.
    const std::int64_t items = s_.matrices() * blocks_;
    const std::int64_t most = std::max(kFewChunks, s_.elements() / 4 / floats_);
    chunks_ = cut(items, cost, {.least = (items + most - 1) / most});
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(chunks_.count() * floats_) * sizeof(float);
  }

  void run(const KernelArgs& args) const override {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      float* memory = static_cast<float*>(args.workspace) + slot_of(args) * floats_;
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
  // Operands of one head of one sample.
  struct Head {
    const float *q, *k, *v;
    float *y, *top, *sum;
    std::int64_t index;  // among those of all samples
    const void* mask;    // or nullptr
  };

  std::int64_t rows_of_blocks(double cost) const {
    const std::int64_t parts = worthwhile_parts(cost), each = (parts + s_.matrices() - 1) / s_.matrices();
    return std::min(
        {s_.rows, rows_in_cache(score_row_), rounded_up((s_.rows + each - 1) / each, AttentionShape::kFewRows)});
  }

  Head head_of(const KernelArgs& args, std::int64_t i) const {
    return {static_cast<const float*>(args.inputs[0]) + s_.place_of(i, s_.rows, s_.depth),
            static_cast<const float*>(args.inputs[1]) + s_.place_of(i, s_.keys, s_.depth),
            static_cast<const float*>(args.inputs[2]) + s_.place_of(i, s_.keys, s_.width),
            static_cast<float*>(args.outputs[0]) + s_.place_of(i, s_.rows, s_.width),
            static_cast<float*>(args.outputs[1]) + i * s_.rows,
            static_cast<float*>(args.outputs[2]) + i * s_.rows,
            i,
            args.inputs.size() < 4 ? nullptr : args.inputs[3]};
  }

  // What all rows of queries read.
  void prepare(const Head& head, float* memory) const {
    if (s_.turns_keys()) turn_into_panels({.n = s_.keys, .k = s_.depth, .b_row = s_.heads * s_.depth}, head.k, memory);
    if (copies_values_) gather_rows(head.v, s_.heads * s_.width, s_.keys, s_.width, memory + values_at_);
  }

  void compute(const Head& head, std::int64_t first, float* memory) const {
    const std::int64_t rows = std::min(block_rows_, s_.rows - first), query_row = s_.heads * s_.depth;
    const float* q = head.q + first * query_row;
    float *scores = memory + scores_at_, *factors = memory + factors_at_;
    make_scores(s_, {rows, scale_, score_row_}, q, s_.turns_keys() ? memory : head.k, factors, scores);
    for (std::int64_t i = 0; i < rows; ++i) {
      const MaskRow mask = mask_.row(head.mask, head.index, first + i);
      float &top = head.top[first + i], &sum = head.sum[first + i];
      sum = ASPEN_BEST(weigh_scores)(scores + i * score_row_, s_.keys, mask, top);
      factors[i] = 1.0f / sum;
    }
    const std::int64_t y_row = s_.heads * s_.width, v_row = copies_values_ ? s_.width : y_row;
    const Epilogue divides{.scale = factors};
    gemm_rows({rows, s_.width, s_.keys, score_row_, 1, v_row, y_row}, scores,
              copies_values_ ? memory + values_at_ : head.v, head.y + first * y_row, {.epilogue = &divides});
  }

  AttentionShape s_;
  MaskLayout mask_;
  float scale_ = 1;
  std::int64_t score_row_ = 0, block_rows_ = 0, blocks_ = 0;
  bool copies_values_ = false;
  std::int64_t values_at_ = 0, scores_at_ = 0, factors_at_ = 0, floats_ = 0;  // in the memory of a chunk
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

void register_attention_cpu(KernelRegistry& kernels) {
  add_with_half(kernels, "attention", make_attention);
  register_attention_grad_cpu(kernels);
}

}  // namespace aspen
