#include "aspen/backends/cpu/elementwise.h"

#include <algorithm>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"

#define ASPEN_ISA_FILE "aspen/backends/cpu/elementwise.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

constexpr std::int64_t kBlock = 512;  // floats of one operand converted at a time

// A row of an operand in half or bfloat16 as float: a block of it, or its one element again and again.
template <class T>
struct NarrowRow {
  const T* data;
  std::int64_t step;
  float* block;

  const float* at(std::int64_t i, std::int64_t n) const {
    to_float(data + i * step, block, step == 0 ? 1 : n);
    return block;
  }
};

bool declines(const KernelRequest& request, std::string& why) {
  DType dtype = request.inputs[0].type.dtype;
  if (dtype == DType::kF32 || is_narrow_float(dtype)) return false;
  why = fmt::format("{}: no vector loop for {}", request.op, name_of(dtype));
  return true;
}

template <class T, class Loop>
std::unique_ptr<Kernel> rows_kernel(const KernelRequest& request, Loop loop) {
  ChunkedRows<2> chunked(
      broadcast_rows<2>(request.outputs[0].shape, {&request.inputs[0].type.shape, &request.inputs[1].type.shape}),
      kMoveCost);
  return make_kernel([chunked, loop](const KernelArgs& args) {
    auto [dx, dy] = chunked.rows().strides();
    chunked.for_each_piece(args, [&, dx = dx, dy = dy](std::int64_t first, const auto& offsets, std::int64_t n) {
      loop(static_cast<const T*>(args.inputs[0]) + offsets[0], dx, static_cast<const T*>(args.inputs[1]) + offsets[1],
           dy, args.outputs[0], first, n);
    });
  });
}

template <class T>
std::unique_ptr<Kernel> narrow_unary(const Chunks& chunks, UnaryLoop loop, const LoopParameters& parameters) {
  return make_kernel([=](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      float block[kBlock];
      NarrowRow<T> x{static_cast<const T*>(args.inputs[0]), 1, block};
      for (std::int64_t i = chunk.begin; i < chunk.end; i += kBlock) {
        std::int64_t n = std::min(kBlock, chunk.end - i);
        loop(x.at(i, n), block, n, parameters);
        from_float(block, static_cast<T*>(args.outputs[0]) + i, n);
      }
    });
  });
}

template <class T>
std::unique_ptr<Kernel> narrow_binary(const KernelRequest& request, BinaryLoop loop, const LoopParameters& parameters) {
  return rows_kernel<T>(request, [=](const T* x, std::int64_t dx, const T* y, std::int64_t dy, void* z,
                                     std::int64_t first, std::int64_t count) {
    float x_block[kBlock], y_block[kBlock];
    NarrowRow<T> x_row{x, dx, x_block}, y_row{y, dy, y_block};
    for (std::int64_t i = 0; i < count; i += kBlock) {
      std::int64_t n = std::min(kBlock, count - i);
      float* result = dx != 0 ? x_block : y_block;  // a block that holds a single element has no room
      loop(x_row.at(i, n), dx, y_row.at(i, n), dy, result, n, parameters);
      from_float(result, static_cast<T*>(z) + first + i, n);
    }
  });
}

}  // namespace

void to_float(const Half* x, float* y, std::int64_t n) { ASPEN_BEST(half_to_float)(x, y, n); }
void to_float(const BFloat16* x, float* y, std::int64_t n) { ASPEN_BEST(bfloat_to_float)(x, y, n); }
void from_float(const float* x, Half* y, std::int64_t n) { ASPEN_BEST(float_to_half)(x, y, n); }
void from_float(const float* x, BFloat16* y, std::int64_t n) { ASPEN_BEST(float_to_bfloat)(x, y, n); }

std::unique_ptr<Kernel> make_unary_loop(const KernelRequest& request, UnaryLoop loop, const LoopParameters& parameters,
                                        std::string& why) {
  if (declines(request, why)) return nullptr;
  Chunks chunks = cut_elements(request.outputs[0].numel(), kMoveCost);
  if (request.inputs[0].type.dtype == DType::kF32) {
    return make_kernel([=](const KernelArgs& args) {
      for_each_chunk(args, chunks, [&](const Chunk& chunk) {
        loop(static_cast<const float*>(args.inputs[0]) + chunk.begin,
             static_cast<float*>(args.outputs[0]) + chunk.begin, chunk.size(), parameters);
      });
    });
  }
  return request.inputs[0].type.dtype == DType::kF16 ? narrow_unary<Half>(chunks, loop, parameters)
                                                     : narrow_unary<BFloat16>(chunks, loop, parameters);
}

std::unique_ptr<Kernel> make_binary_loop(const KernelRequest& request, BinaryLoop loop,
                                         const LoopParameters& parameters, std::string& why) {
  if (declines(request, why)) return nullptr;
  if (request.inputs[0].type.dtype == DType::kF32) {
    return rows_kernel<float>(
        request, [=](const float* x, std::int64_t dx, const float* y, std::int64_t dy, void* z, std::int64_t first,
                     std::int64_t n) { loop(x, dx, y, dy, static_cast<float*>(z) + first, n, parameters); });
  }
  return request.inputs[0].type.dtype == DType::kF16 ? narrow_binary<Half>(request, loop, parameters)
                                                     : narrow_binary<BFloat16>(request, loop, parameters);
}

std::unique_ptr<Kernel> make_compare_loop(const KernelRequest& request, CompareLoop loop, std::string& why) {
  if (request.inputs[0].type.dtype != DType::kF32) {
    why = fmt::format("{}: no vector loop for {}", request.op, name_of(request.inputs[0].type.dtype));
    return nullptr;
  }
  return rows_kernel<float>(
      request, [loop](const float* x, std::int64_t dx, const float* y, std::int64_t dy, void* z, std::int64_t first,
                      std::int64_t n) { loop(x, dx, y, dy, static_cast<bool*>(z) + first, n); });
}

}  // namespace aspen
