// What conv_affine does after the convolution, for kernels that do not do it to their sums in registers: on the way
// from the layout of oneDNN into ours, or in a pass over the result. Called by the conv kernels.
#pragma once

#include <memory>

#include "aspen/ops/conv/conv_types.cpu.h"

namespace aspen {

// The kernel, then a pass over its result; the kernel itself where there is nothing to do.
std::unique_ptr<Kernel> with_finish(std::unique_ptr<Kernel> conv, const ConvTypes& types, const ConvFinish& finish);

// Images whose channels lie side by side, `block` at a time; in floats.
struct BlockedImages {
  std::int64_t images = 0, channels = 0, pixels = 0;
  std::int64_t block = 0;
  std::int64_t image_step = 0, block_step = 0, pixel_step = 0;
  std::int64_t plain_image_step = 0, plane_step = 0;  // of the plain copy
};

// Whether unblock_images takes blocks of so many.
bool can_unblock(std::int64_t block, std::int64_t channels);
// Into planes, finished if there is an epilogue.
void unblock_images(const BlockedImages& images, const float* from, float* to, const Epilogue* epilogue);

}  // namespace aspen
