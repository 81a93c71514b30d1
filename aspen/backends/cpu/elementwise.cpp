#include "aspen/backends/cpu/elementwise.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

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

// Rows of two operands, written out side by side: element (r, j) is from[r * row_step + j * step].
template <class T>
void write_out(const std::byte* from, std::int64_t row_step, std::int64_t step, std::int64_t rows,
               std::int64_t row_size, std::byte* to) {
  auto* x = reinterpret_cast<const T*>(from);
  auto* y = reinterpret_cast<T*>(to);
  for (std::int64_t r = 0; r < rows; ++r, x += row_step) {
    for (std::int64_t j = 0; j < row_size; ++j) *y++ = x[j * step];
  }
}

// The operands of a binary op in pieces for a loop. Rows too short for a vector are joined: an operand that is not
// dense is written out for many rows at once, and one that is the same in every row is written out only once.
class Operands {
 public:
  explicit Operands(const KernelRequest& request)
      : size_(static_cast<std::int64_t>(size_of(request.inputs[0].type.dtype))),
        chunked_(
            broadcast_rows<2>(request.outputs[0].shape, {&request.inputs[0].type.shape, &request.inputs[1].type.shape}),
            kMoveCost) {
    const StridedRows<2>& rows = chunked_.rows();
    bool is_short = rows.row_size() > 0 && rows.row_size() <= kShort;
    if (!is_short || rows.row_steps() == nullptr || size_ > 4) return;
    rows_at_once_ = kBlock / rows.row_size();
    joined_ = cut(rows.num_rows(), kMoveCost * static_cast<double>(rows.size()), {.multiple = rows_at_once_});
  }

  // Calls f(x, dx, y, dy, first, n) with the place of each piece; `first` counts the elements before it.
  template <class F>
  void for_each(const KernelArgs& args, F&& f) const {
    auto* x = static_cast<const std::byte*>(args.inputs[0]);
    auto* y = static_cast<const std::byte*>(args.inputs[1]);
    auto [dx, dy] = chunked_.rows().strides();
    if (rows_at_once_ != 0) {
      return for_each_chunk(args, joined_, [&](const Chunk& chunk) { join(chunk, {x, y}, f); });
    }
    chunked_.for_each_piece(args, [&, dx = dx, dy = dy](std::int64_t first, const auto& offsets, std::int64_t n) {
      f(x + offsets[0] * size_, dx, y + offsets[1] * size_, dy, first, n);
    });
  }

 private:
  static constexpr std::int64_t kShort = 24;

  template <class F>
  void join(const Chunk& chunk, const std::array<const std::byte*, 2>& operands, F&& f) const {
    alignas(64) std::byte written[2][kBlock * 4];
    std::int64_t row_size = chunked_.rows().row_size();
    for (std::int64_t r = chunk.begin; r < chunk.end; r += rows_at_once_) {
      std::int64_t rows = std::min(rows_at_once_, chunk.end - r);
      std::array<const std::byte*, 2> at{};
      for (std::size_t k = 0; k < 2; ++k) {
        std::int64_t step = chunked_.rows().strides()[k], row_step = (*chunked_.rows().row_steps())[k];
        const std::byte* from = operands[k] + r * row_step * size_;
        bool is_dense = step == 1 && row_step == row_size;
        at[k] = is_dense ? from : written[k];
        bool is_written = is_dense || (row_step == 0 && r > chunk.begin);
        if (!is_written) write_rows(from, row_step, step, rows, written[k]);
      }
      f(at[0], 1, at[1], 1, r * row_size, rows * row_size);
    }
  }

  void write_rows(const std::byte* from, std::int64_t row_step, std::int64_t step, std::int64_t rows,
                  std::byte* to) const {
    auto* write = size_ == 4   ? write_out<std::uint32_t>
                  : size_ == 2 ? write_out<std::uint16_t>
                               : write_out<std::uint8_t>;
    write(from, row_step, step, rows, chunked_.rows().row_size(), to);
  }

  std::int64_t size_;
  ChunkedRows<2> chunked_;
  std::int64_t rows_at_once_ = 0;  // 0: rows are long enough
  Chunks joined_;
};

template <class T, class Loop>
std::unique_ptr<Kernel> rows_kernel(const KernelRequest& request, Loop loop) {
  return make_kernel([operands = Operands(request), loop](const KernelArgs& args) {
    operands.for_each(args, [&](const std::byte* x, std::int64_t dx, const std::byte* y, std::int64_t dy,
                                std::int64_t first, std::int64_t n) {
      loop(reinterpret_cast<const T*>(x), dx, reinterpret_cast<const T*>(y), dy, args.outputs[0], first, n);
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

template <class Loop>
Loop find_typed(const KernelRequest& request, std::span<const TypedRow<Loop>> rows, std::string& why) {
  DType dtype = request.inputs[0].type.dtype;
  for (const auto& row : rows) {
    if (row.op == request.op && row.dtype == dtype) return row.loop;
  }
  why = fmt::format("{}: no vector loop for {}", request.op, name_of(dtype));
  return nullptr;
}

}  // namespace

void to_float(const Half* x, float* y, std::int64_t n) { ASPEN_BEST(widen<Half>)(x, y, n); }
void to_float(const BFloat16* x, float* y, std::int64_t n) { ASPEN_BEST(widen<BFloat16>)(x, y, n); }
void from_float(const float* x, Half* y, std::int64_t n) { ASPEN_BEST(narrow<Half>)(x, y, n); }
void from_float(const float* x, BFloat16* y, std::int64_t n) { ASPEN_BEST(narrow<BFloat16>)(x, y, n); }

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
  if (request.inputs[0].type.dtype == DType::kF16) return narrow_unary<Half>(chunks, loop, parameters);
  return narrow_unary<BFloat16>(chunks, loop, parameters);
}

std::unique_ptr<Kernel> make_binary_loop(const KernelRequest& request, BinaryLoop loop,
                                         const LoopParameters& parameters, std::string& why) {
  if (declines(request, why)) return nullptr;
  if (request.inputs[0].type.dtype == DType::kF32) {
    return rows_kernel<float>(
        request, [=](const float* x, std::int64_t dx, const float* y, std::int64_t dy, void* z, std::int64_t first,
                     std::int64_t n) { loop(x, dx, y, dy, static_cast<float*>(z) + first, n, parameters); });
  }
  if (request.inputs[0].type.dtype == DType::kF16) return narrow_binary<Half>(request, loop, parameters);
  return narrow_binary<BFloat16>(request, loop, parameters);
}

std::unique_ptr<Kernel> make_typed_unary(const KernelRequest& request, std::span<const TypedRow<TypedUnaryLoop>> rows,
                                         std::string& why) {
  TypedUnaryLoop loop = find_typed(request, rows, why);
  if (loop == nullptr) return nullptr;
  auto x_size = static_cast<std::int64_t>(size_of(request.inputs[0].type.dtype));
  auto y_size = static_cast<std::int64_t>(size_of(request.outputs[0].dtype));
  return make_kernel([=, chunks = cut_elements(request.outputs[0].numel(), kMoveCost)](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      loop(static_cast<const std::byte*>(args.inputs[0]) + chunk.begin * x_size,
           static_cast<std::byte*>(args.outputs[0]) + chunk.begin * y_size, chunk.size());
    });
  });
}

std::unique_ptr<Kernel> make_typed_binary(const KernelRequest& request, std::span<const TypedRow<TypedLoop>> rows,
                                          std::string& why) {
  TypedLoop loop = find_typed(request, rows, why);
  if (loop == nullptr) return nullptr;
  auto size = static_cast<std::int64_t>(size_of(request.outputs[0].dtype));
  return make_kernel([operands = Operands(request), loop, size](const KernelArgs& args) {
    operands.for_each(
        args, [&](const std::byte* x, std::int64_t dx, const std::byte* y, std::int64_t dy, std::int64_t first,
                  std::int64_t n) { loop(x, dx, y, dy, static_cast<std::byte*>(args.outputs[0]) + first * size, n); });
  });
}

}  // namespace aspen
