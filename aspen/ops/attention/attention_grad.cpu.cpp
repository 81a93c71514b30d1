// One head at a time, and of its queries a block of rows: their weights are made again, as attention made them, so that
// neither they nor their gradients are ever in memory as a whole. Gradients of keys and values are added up over the
// blocks in their order.
#include <algorithm>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/gemm.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/ops/attention/attention.cpu.h"

#define ASPEN_ISA_FILE "aspen/ops/attention/attention_grad_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

constexpr std::size_t kMask = 6;

class AttentionGradKernel final : public Kernel {
 public:
  explicit AttentionGradKernel(const KernelRequest& request)
      : s_(request), mask_(request, kMask, s_), scale_(static_cast<float>(request.attrs.as<AttentionAttrs>().scale)),
        score_row_(score_row_of(s_)) {
    block_rows_ = std::min(s_.rows, rows_in_cache(score_row_));
    const std::int64_t panel_keys = rounded_up(s_.keys, gemm_panel_width());
    std::int64_t end = 0;
    auto reserve = [&](std::int64_t floats) {
      const std::int64_t begin = end;
      end += rounded_up(floats, 16);
      return begin;
    };
    key_panels_ = reserve(s_.turns_keys() ? panel_keys * s_.depth : 0);
    value_panels_ = reserve(panel_keys * s_.width);
    keys_ = reserve(s_.heads > 1 ? s_.keys * s_.depth : 0);
    weights_ = reserve(block_rows_ * score_row_);
    gradients_ = reserve(block_rows_ * score_row_);
    scales_ = reserve(block_rows_);
    adds_up_ = block_rows_ < s_.rows;
    key_sums_ = reserve(adds_up_ ? s_.keys * s_.depth : 0);
    value_sums_ = reserve(adds_up_ ? s_.keys * s_.width : 0);
    part_ = reserve(adds_up_ ? s_.keys * std::max(s_.depth, s_.width) : 0);
    floats_ = end + 16;
    const double products = static_cast<double>(s_.scores()) * static_cast<double>(3 * s_.depth + 2 * s_.width);
    const double cost = kMultiplyAddCost * products + kMathCost * static_cast<double>(s_.scores());
    const std::int64_t most = std::max(kFewChunks, s_.elements() / 2 / floats_);
    chunks_ = cut(s_.matrices(), cost, {.least = (s_.matrices() + most - 1) / most});
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(chunks_.count() * floats_) * sizeof(float);
  }

  void run(const KernelArgs& args) const override {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      float* memory = static_cast<float*>(args.workspace) + slot_of(args) * floats_;
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) compute(head_of(args, i), memory);
    });
  }

 private:
  // Operands and results of one head of one sample.
  struct Head {
    const float *q, *k, *v, *top, *sum, *g;
    const void* mask;  // or nullptr
    float *dq, *dk, *dv;
    std::int64_t index;  // among those of all samples
  };

  Head head_of(const KernelArgs& args, std::int64_t i) const {
    auto in = [&](std::size_t input) { return static_cast<const float*>(args.inputs[input]); };
    auto out = [&](std::size_t output) { return static_cast<float*>(args.outputs[output]); };
    const std::int64_t query = s_.place_of(i, s_.rows, s_.depth), key = s_.place_of(i, s_.keys, s_.depth);
    const std::int64_t value = s_.place_of(i, s_.keys, s_.width), result = s_.place_of(i, s_.rows, s_.width);
    return {in(0) + query,
            in(1) + key,
            in(2) + value,
            in(3) + i * s_.rows,
            in(4) + i * s_.rows,
            in(5) + result,
            args.inputs.size() > kMask ? args.inputs[kMask] : nullptr,
            out(0) + query,
            out(1) + key,
            out(2) + value,
            i};
  }

  void compute(const Head& head, float* memory) const {
    const std::int64_t key_row = s_.heads * s_.depth, value_row = s_.heads * s_.width;
    if (s_.turns_keys()) {
      turn_into_panels({.n = s_.keys, .k = s_.depth, .b_row = key_row}, head.k, memory + key_panels_);
    }
    turn_into_panels({.n = s_.keys, .k = s_.width, .b_row = value_row}, head.v, memory + value_panels_);
    if (s_.heads > 1) gather_rows(head.k, key_row, s_.keys, s_.depth, memory + keys_);
    for (std::int64_t first = 0; first < s_.rows; first += block_rows_) {
      add_block(head, first, std::min(block_rows_, s_.rows - first), memory);
    }
    for (std::int64_t t = 0; adds_up_ && t < s_.keys; ++t) {
      std::copy_n(memory + key_sums_ + t * s_.depth, s_.depth, head.dk + t * key_row);
      std::copy_n(memory + value_sums_ + t * s_.width, s_.width, head.dv + t * value_row);
    }
  }

  void add_block(const Head& head, std::int64_t first, std::int64_t rows, float* memory) const {
    const std::int64_t key_row = s_.heads * s_.depth, value_row = s_.heads * s_.width;
    const float *q = head.q + first * key_row, *g = head.g + first * value_row;
    float *weights = memory + weights_, *gradients = memory + gradients_;
    // Of one block they are written where they belong.
    float *key_sums = adds_up_ ? memory + key_sums_ : head.dk, *value_sums = adds_up_ ? memory + value_sums_ : head.dv;
    const std::int64_t key_sum_row = adds_up_ ? s_.depth : key_row, value_sum_row = adds_up_ ? s_.width : value_row;

    make_scores(s_, {rows, scale_, score_row_}, q, s_.turns_keys() ? memory + key_panels_ : head.k, memory + scales_,
                weights);
    for (std::int64_t i = 0; i < rows; ++i) {
      ASPEN_BEST(weights_of_scores)
      (weights + i * score_row_, s_.keys, mask_.row(head.mask, head.index, first + i), head.top[first + i],
       1.0f / head.sum[first + i]);
    }
    sum_up({s_.keys, s_.width, rows, 1, score_row_, value_row, value_sum_row}, weights, g, value_sums, first, memory);
    const std::int64_t panel = gemm_panel_width();
    gemm_rows({rows, s_.keys, s_.width, value_row, 1, panel, score_row_, s_.width * panel}, g, memory + value_panels_,
              gradients);
    for (std::int64_t i = 0; i < rows; ++i) {
      float *of_row = gradients + i * score_row_, *weights_of_row = weights + i * score_row_;
      const float mean = ASPEN_BEST(product_of_lines)(weights_of_row, of_row, s_.keys);
      ASPEN_BEST(gradients_of_scores)
      (of_row, weights_of_row, s_.keys, scale_, mean, mask_.row(head.mask, head.index, first + i));
    }
    gemm_rows({rows, s_.depth, s_.keys, score_row_, 1, s_.heads > 1 ? s_.depth : key_row, key_row}, gradients,
              s_.heads > 1 ? memory + keys_ : head.k, head.dq + first * key_row);
    sum_up({s_.keys, s_.depth, rows, 1, score_row_, key_row, key_sum_row}, gradients, q, key_sums, first, memory);
  }

  // The product of the first block is the sum, those of the others are added to it.
  void sum_up(const GemmShape& shape, const float* a, const float* b, float* sums, std::int64_t first,
              float* memory) const {
    constexpr std::int64_t kWholeVectors = 16;  // of which gemm_rows itself adds
    if (first == 0 || shape.n % kWholeVectors == 0) return gemm_rows(shape, a, b, sums, {.adds = first > 0});
    float* part = memory + part_;
    gemm_rows(shape, a, b, part);
    for (std::int64_t i = 0; i < shape.m * shape.n; ++i) sums[i] += part[i];
  }

  AttentionShape s_;
  MaskLayout mask_;
  float scale_;
  bool adds_up_ = false;  // gradients of keys and values, over several blocks
  std::int64_t score_row_, block_rows_ = 0;
  // In the memory of a chunk.
  std::int64_t key_panels_ = 0, value_panels_ = 0, keys_ = 0, weights_ = 0, gradients_ = 0, scales_ = 0, key_sums_ = 0,
               value_sums_ = 0, part_ = 0, floats_ = 0;
  Chunks chunks_;
};

std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request, std::string& why) {
  const AttentionShape shape(request);
  if (request.inputs[0].type.dtype != DType::kF32 || shape.scores() * shape.depth * shape.width == 0) {
    why = fmt::format("attention_grad: the vector loops take f32 with at least one element, not {}",
                      to_string(request.inputs[0].type));
    return nullptr;
  }
  return std::make_unique<AttentionGradKernel>(request);
}

}  // namespace

void register_attention_grad_cpu(KernelRegistry& kernels) {
  add_with_half(kernels, "attention_grad", make_attention_grad);
}

}  // namespace aspen
