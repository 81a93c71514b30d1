// How a kernel cuts its work for the threads of its device (see ThreadTeam). Borders follow from the shape and from an
// estimate of the cost that itself follows from the shape, so that results are the same for any number of threads.
// Called by every kernel that may take long enough to be worth sharing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>

#include "aspen/backends/api/kernel.h"
#include "aspen/backends/api/strided_rows.h"

namespace aspen {

struct Chunk {
  std::int64_t index, begin, end;
  std::int64_t size() const { return end - begin; }
};

// Consecutive ranges of equal size; the last may be shorter.
class Chunks {
 public:
  Chunks() = default;
  Chunks(std::int64_t items, std::int64_t size) : items_(items), size_(size) {}

  std::int64_t items() const { return items_; }
  std::int64_t size() const { return size_; }
  std::int64_t count() const { return size_ == 0 ? 0 : (items_ + size_ - 1) / size_; }
  Chunk operator[](std::int64_t i) const { return {i, i * size_, std::min(items_, (i + 1) * size_)}; }

 private:
  std::int64_t items_ = 0, size_ = 0;
};

// Rough costs of one element or one multiply-add in nanoseconds, for an AVX-512 core.
inline constexpr double kReadCost = 0.2;  // a sum or a maximum
inline constexpr double kMoveCost = 0.5;  // bound by memory
inline constexpr double kMathCost = 1.0;  // exponentials and the like
inline constexpr double kMultiplyAddCost = 0.02;

// Dealing a chunk out to a thread that waits for it takes less than a microsecond; work of less than two of these stays
// whole, and what is shared in vain the runtime finds out. More than a few chunks are longer: on few threads their
// number only costs.
inline constexpr double kLeastChunk = 3'500, kLeastOfMany = 50'000;
inline constexpr std::int64_t kFewChunks = 8, kMostChunks = 64;

// In how many parts work that takes this long is worth cutting: a power of two, so that two and four threads end
// together. Up to a few they are worth cutting along another axis, too, where memory is read in shorter pieces.
inline std::int64_t worthwhile_parts(double nanoseconds, std::int64_t most = kFewChunks) {
  std::int64_t parts = 1;
  for (std::int64_t next = 2; next <= most; next *= 2) {
    if (nanoseconds < (next <= kFewChunks ? kLeastChunk : kLeastOfMany) * static_cast<double>(next)) break;
    parts = next;
  }
  return parts;
}

// Sizes of chunks.
struct Grain {
  std::int64_t multiple = 1;  // all but the last are a multiple of this
  std::int64_t least = 1;     // and about this large or larger
};

// Cuts `items` that take so long in all.
inline Chunks cut(std::int64_t items, double nanoseconds, Grain grain = {}) {
  std::int64_t parts = worthwhile_parts(nanoseconds, std::clamp<std::int64_t>(items / grain.least, 1, kMostChunks));
  std::int64_t size = (items + parts - 1) / parts;
  return {items, std::min(items, (size + grain.multiple - 1) / grain.multiple * grain.multiple)};
}

// Elements of contiguous tensors: borders fall between cache lines, whatever the element type.
inline Chunks cut_elements(std::int64_t count, double cost) {
  return cut(count, cost * static_cast<double>(count), {.multiple = 64});
}

// Calls work(chunk) for each chunk, on the threads of the device if there are several.
template <class F>
void for_each_chunk(const KernelArgs& args, const Chunks& chunks, F&& work) {
  ThreadTeam* team = args.step != nullptr ? args.step->team : nullptr;
  std::int64_t count = chunks.count();
  if (count < 2 || team == nullptr || team->num_threads() < 2) {
    for (std::int64_t i = 0; i < count; ++i) work(chunks[i]);
    return;
  }
  auto run = [&](std::int64_t i) { work(chunks[i]); };
  team->run(count, std::ref(run));  // a reference: std::function would allocate to hold a copy
}

// Asked from within the work on a chunk: a number that no other chunk has which runs at the same time, less than that
// of chunks and of threads. A thread has the same one every time: what it has written to memory of this number is in
// its cache.
inline std::int64_t slot_of(const KernelArgs& args) {
  const ThreadTeam* team = args.step != nullptr ? args.step->team : nullptr;
  return team == nullptr ? 0 : static_cast<std::int64_t>(team->this_thread());
}

// Adds `count` arrays of n floats, one behind the other, to `total`: every element in the order of the arrays.
inline void add_parts(const KernelArgs& args, float* total, const float* parts, std::int64_t n, std::int64_t count) {
  for_each_chunk(args, cut_elements(n, kReadCost * static_cast<double>(count)), [&](const Chunk& chunk) {
    for (std::int64_t part = 0; part < count; ++part) {
      for (std::int64_t i = chunk.begin; i < chunk.end; ++i) total[i] += parts[part * n + i];
    }
  });
}

// StridedRows cut into chunks: whole rows where there are enough of them, else pieces of every row.
template <std::size_t N>
class ChunkedRows {
 public:
  // `cost` in nanoseconds per element.
  ChunkedRows(StridedRows<N> rows, double cost) : rows_(std::move(rows)) {
    double total = cost * static_cast<double>(rows_.size());
    whole_rows_ = rows_.num_rows() >= 2 * worthwhile_parts(total);
    chunks_ = whole_rows_ ? cut(rows_.num_rows(), total) : cut(rows_.row_size(), total, {.multiple = 64});
  }

  const StridedRows<N>& rows() const { return rows_; }

  // Calls piece(first, offsets, count) for every piece of a row; `first` counts the elements before it.
  template <class F>
  void for_each_piece(const KernelArgs& args, F&& piece) const {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      if (whole_rows_) {
        rows_.for_each_row_in(chunk.begin, chunk.end, [&](std::int64_t first, const auto& offsets) {
          piece(first, offsets, rows_.row_size());
        });
        return;
      }
      rows_.for_each_row([&](std::int64_t first, auto offsets) {
        for (std::size_t k = 0; k < N; ++k) offsets[k] += chunk.begin * rows_.strides()[k];
        piece(first + chunk.begin, offsets, chunk.size());
      });
    });
  }

 private:
  StridedRows<N> rows_;
  bool whole_rows_ = true;
  Chunks chunks_;
};

}  // namespace aspen
