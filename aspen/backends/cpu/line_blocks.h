// The lines along one axis of a contiguous tensor in blocks that one loop takes at a time: up to kWidth lines whose
// elements lie beside each other, or, along the last axis, kRows whole rows. Blocks are dealt out to threads. Called by
// the kernels of scans and positions of extremes.
#pragma once

#include <algorithm>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"

namespace aspen {

// Element k of line j of the block is at offset + k * along + j * beside; `line` counts the lines before the block.
struct LineBlock {
  std::int64_t line, offset, count;
  std::int64_t size, along, beside;
};

class LineBlocks {
 public:
  static constexpr std::int64_t kWidth = 256, kRows = 4;

  // `cost` in nanoseconds per element.
  LineBlocks(const AxisLines& lines, double cost) : lines_(lines), by_rows_(lines.inner == 1) {
    across_ = by_rows_ ? 1 : (lines.inner + kWidth - 1) / kWidth;
    std::int64_t blocks = by_rows_ ? (lines.outer + kRows - 1) / kRows : lines.outer * across_;
    chunks_ = cut(blocks, cost * static_cast<double>(lines.outer * lines.size * lines.inner));
  }

  template <class F>
  void for_each(const KernelArgs& args, F&& compute) const {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      for (std::int64_t b = chunk.begin; b < chunk.end; ++b) compute(block(b));
    });
  }

 private:
  LineBlock block(std::int64_t b) const {
    std::int64_t n = lines_.size;
    if (by_rows_) {
      std::int64_t row = b * kRows;
      return {row, row * n, std::min(kRows, lines_.outer - row), n, 1, n};
    }
    std::int64_t outer = b / across_, inner = b % across_ * kWidth;
    return {outer * lines_.inner + inner,
            outer * n * lines_.inner + inner,
            std::min(kWidth, lines_.inner - inner),
            n,
            lines_.inner,
            1};
  }

  AxisLines lines_;
  bool by_rows_;
  std::int64_t across_;
  Chunks chunks_;
};

// A kernel that calls loop(block, settings..., args) for every block of the lines along an axis of the first input;
// declines if there is no loop.
template <class Loop, class... Settings>
std::unique_ptr<Kernel> make_line_kernel(const KernelRequest& request, std::string& why, std::int64_t axis, Loop loop,
                                         Settings... settings) {
  const TensorType& x = request.inputs[0].type;
  if (loop == nullptr) {
    why = fmt::format("{}: no vector loop for {}", request.op, to_string(x));
    return nullptr;
  }
  LineBlocks blocks(AxisLines(x.shape, axis, request.op.c_str()), kMoveCost);
  return make_kernel([=](const KernelArgs& args) {
    blocks.for_each(args, [&](const LineBlock& block) { loop(block, settings..., args); });
  });
}

}  // namespace aspen
