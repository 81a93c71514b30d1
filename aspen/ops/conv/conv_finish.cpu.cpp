#include "aspen/ops/conv/conv_finish.cpu.h"

#include "aspen/backends/cpu/chunks.h"

#define ASPEN_ISA_FILE "aspen/ops/conv/conv_finish.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

class FinishedConv final : public Kernel {
 public:
  FinishedConv(std::unique_ptr<Kernel> conv, const ConvTypes& types, const ConvFinish& finish)
      : conv_(std::move(conv)), finish_(finish), channels_(types.y.shape[1]) {
    const std::int64_t planes = types.y.shape[0] * channels_;
    pixels_ = types.y.numel() / planes;
    chunks_ = cut(planes, kMoveCost * static_cast<double>(types.y.numel()));
  }

  std::size_t workspace_bytes() const override { return conv_->workspace_bytes(); }
  void reserve(std::size_t num_threads) const override { conv_->reserve(num_threads); }

  void run(const KernelArgs& args) const override {
    conv_->run(args);
    const Epilogue epilogue = *finish_.epilogue(args);
    auto* y = static_cast<float*>(args.outputs[0]);
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      for (std::int64_t plane = chunk.begin; plane < chunk.end; ++plane) {
        const std::int64_t place = plane * pixels_;
        ASPEN_BEST(finish_plane)(y + place, pixels_, epilogue.from(plane % channels_, place));
      }
    });
  }

 private:
  std::unique_ptr<Kernel> conv_;
  ConvFinish finish_;
  std::int64_t channels_, pixels_ = 0;
  Chunks chunks_;
};

}  // namespace

std::unique_ptr<Kernel> with_finish(std::unique_ptr<Kernel> conv, const ConvTypes& types, const ConvFinish& finish) {
  if (!finish) return conv;
  return std::make_unique<FinishedConv>(std::move(conv), types, finish);
}

bool can_unblock(std::int64_t block, std::int64_t channels) { return ASPEN_BEST(can_unblock)(block, channels); }

void unblock_images(const BlockedImages& images, const float* from, float* to, const Epilogue* epilogue) {
  ASPEN_BEST(unblock_images)(images, from, to, epilogue);
}

}  // namespace aspen
