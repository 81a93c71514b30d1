// Indices are checked before they are followed, so that the loops need not: those of a write over its input all before
// the first of them, so that a wrong one leaves everything as it was. Reads are cut anywhere; writes only between
// places that no two updates share, so that updates of one place meet in their order.
#include "aspen/ops/index/index.h"

#include <algorithm>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/ops/index/check_index.h"
#include "aspen/ops/index/scatter_rows_narrow.cpu.h"

namespace aspen {
namespace {

enum class ScatterMode { kSet, kAdd, kMul, kMax, kMin };  // as kScatterModes

// Rows of the update, one behind the other, and where they go: both `stride` apart, `columns` of each.
struct RowScatter {
  std::int64_t count, stride, columns;
};

// Row from[k] of x is added to row to[k] of y, for so many k; all are `stride` apart, `columns` of each. Rows of y from
// `begin` to `end` are written.
struct RowSums {
  std::int64_t count, stride, columns, begin, end;
  const std::int32_t *from, *to;
};

// Element i goes to i * step + index * stride.
struct ElementScatter {
  std::int64_t count, step, stride;
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/index/index_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

constexpr double kIndexCost = 1.0;  // of an element that is looked up, in nanoseconds

// Names the first wrong index.
class IndexCheck {
 public:
  IndexCheck(const KernelRequest& request, std::int64_t size, std::size_t input = 1)
      : op_(request.op), input_(input), shape_(request.inputs[input].type.shape), size_(size),
        below_(static_cast<std::uint32_t>(std::min<std::int64_t>(size, std::uint32_t{1} << 31))),
        is_wide_(request.inputs[input].type.dtype == DType::kI64),
        chunks_(cut_elements(request.inputs[input].type.numel(), kReadCost)) {}

  // All of them, on the threads of the device.
  void run(const KernelArgs& args) const {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) { run(args, chunk.begin, chunk.end); });
  }

  // Those of a part, which one thread is about to follow.
  void run(const KernelArgs& args, std::int64_t begin, std::int64_t end) const {
    if (is_wide_) return for_each_block(args, begin, end, [](std::int64_t, std::int64_t, const std::int32_t*) {});
    auto* index = static_cast<const std::int32_t*>(args.inputs[input_]);
    if (!ASPEN_BEST(all_below)(index + begin, end - begin, below_)) fail(index, end);
  }

  // Calls work(first, n, index) with the indices of a part, checked and of 32 bits: at once, or a block at a time
  // where they have 64.
  template <class F>
  void for_each_block(const KernelArgs& args, std::int64_t begin, std::int64_t end, F&& work) const {
    if (!is_wide_) {
      run(args, begin, end);
      return work(begin, end - begin, static_cast<const std::int32_t*>(args.inputs[input_]) + begin);
    }
    constexpr std::int64_t kBlock = 1024;
    std::int32_t narrow[kBlock];
    auto* index = static_cast<const std::int64_t*>(args.inputs[input_]);
    for (std::int64_t first = begin; first < end; first += kBlock) {
      const std::int64_t n = std::min(kBlock, end - first);
      if (!ASPEN_BEST(narrow_below)(index + first, n, below_, narrow)) fail(index, end);
      work(first, n, narrow);
    }
  }

 private:
  template <class I>
  void fail(const I* index, std::int64_t end) const {
    for (std::int64_t i = 0; i < end; ++i) checked_index(index[i], size_, op_, i, shape_);
  }

  std::string op_;
  std::size_t input_;
  Shape shape_;
  std::int64_t size_;
  std::uint32_t below_;
  bool is_wide_;
  Chunks chunks_;
};

// -- reads ------------------------------------------------------------------------------------------------------

// to[i] = from[index[i]]
template <class T>
void look_up(const T* from, const std::int32_t* index, std::int64_t n, T* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[index[i]];
}
// The same, two at a time: reading indices and writing results in pairs takes half the instructions, and it is these
// that such a loop is bound by.
template <>
void look_up(const std::uint32_t* from, const std::int32_t* index, std::int64_t n, std::uint32_t* to) {
  auto look_up_pair = [&](std::int64_t i) {
    std::uint64_t pair;
    std::memcpy(&pair, index + i, sizeof(pair));
    const std::uint64_t low = from[static_cast<std::uint32_t>(pair)], high = from[pair >> 32];
    pair = low | high << 32;
    std::memcpy(to + i, &pair, sizeof(pair));
  };
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    look_up_pair(i);
    look_up_pair(i + 2);
  }
  for (; i < n; ++i) to[i] = from[index[i]];
}

// A run of a size known to the compiler is one or two moves.
template <std::int64_t kBytes>
void copy_rows(const std::byte* x, const std::int32_t* index, std::int64_t count, std::int64_t bytes, std::byte* y) {
  if constexpr (kBytes == sizeof(std::uint32_t)) {
    return look_up(reinterpret_cast<const std::uint32_t*>(x), index, count, reinterpret_cast<std::uint32_t*>(y));
  }
  const std::int64_t run = kBytes != 0 ? kBytes : bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(y + i * run, x + index[i] * run, static_cast<std::size_t>(run));
  }
}

using CopyRows = void (*)(const std::byte*, const std::int32_t*, std::int64_t, std::int64_t, std::byte*);

CopyRows copy_rows_of(std::int64_t bytes) {
  switch (bytes) {
    case 1: return copy_rows<1>;
    case 2: return copy_rows<2>;
    case 4: return copy_rows<4>;
    case 8: return copy_rows<8>;
    case 12: return copy_rows<12>;
    case 16: return copy_rows<16>;
    case 32: return copy_rows<32>;
    case 64: return copy_rows<64>;
    default: return copy_rows<0>;
  }
}

// Asks for bytes that are about to be read in any order, which no cache foresees.
void fetch(const std::byte* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
}

std::unique_ptr<Kernel> make_take(const KernelRequest& request, std::string&) {
  constexpr std::int64_t kFetched = 8192;  // bytes of a slab: it and the next one fit in the first cache level
  const TensorType& x = request.inputs[0].type;
  AxisLines lines(x.shape, request.attrs.as<TakeAttrs>().axis, "take");
  std::int64_t count = request.inputs[1].type.numel();
  std::int64_t run = lines.inner * static_cast<std::int64_t>(size_of(x.dtype)), slab = lines.size * run;
  double cost = kIndexCost + kMoveCost / 4 * static_cast<double>(run);
  Chunks chunks = cut(lines.outer * count, cost * static_cast<double>(lines.outer * count));
  const bool is_fetched = run <= 8 && slab <= kFetched && count * run >= slab / 4;
  return make_kernel([=, check = IndexCheck(request, lines.size), copy = copy_rows_of(run)](const KernelArgs& args) {
    check.run(args);
    auto* from = static_cast<const std::byte*>(args.inputs[0]);
    auto* index = static_cast<const std::int32_t*>(args.inputs[1]);
    auto* to = static_cast<std::byte*>(args.outputs[0]);
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      for (std::int64_t row = chunk.begin; row < chunk.end;) {
        std::int64_t outer = row / count, first = row % count, n = std::min(count - first, chunk.end - row);
        if (is_fetched && outer + 1 < lines.outer) fetch(from + (outer + 1) * slab, slab);
        copy(from + outer * slab, index + first, n, run, to + row * run);
        row += n;
      }
    });
  });
}

// Rows of an index tensor and where they start in x, the axis it points along left out.
StridedRows<1> rows_of_index(const KernelRequest& request, std::int64_t axis) {
  std::array<std::vector<std::int64_t>, 1> strides = {contiguous_strides(request.inputs[0].type.shape)};
  strides[0][axis] = 0;
  return StridedRows<1>(request.inputs[1].type.shape, strides);
}

// to[i] = from[i * step + index[i] * stride]; along the last axis of x, and of equal columns, without products.
template <class T>
void gather_row(const T* from, std::int64_t step, std::int64_t stride, const std::int32_t* index, std::int64_t n,
                T* to) {
  if (step == 0 && stride == 1) {
    look_up(from, index, n, to);
  } else if (step == 1) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i + index[i] * stride];
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * step + index[i] * stride];
  }
}

template <class T>
std::unique_ptr<Kernel> make_typed_gather(const KernelRequest& request) {
  const Shape& x = request.inputs[0].type.shape;
  std::int64_t axis = normalize_axis(request.attrs.as<GatherAttrs>().axis, x, "gather");
  std::int64_t stride = contiguous_strides(x)[axis];
  ChunkedRows<1> chunked(rows_of_index(request, axis), kIndexCost);
  return make_kernel([chunked, stride, check = IndexCheck(request, x[axis])](const KernelArgs& args) {
    std::int64_t step = chunked.rows().strides()[0];
    chunked.for_each_piece(args, [&](std::int64_t first, const auto& offsets, std::int64_t n) {
      const T* from = static_cast<const T*>(args.inputs[0]) + offsets[0];
      check.for_each_block(args, first, first + n, [&](std::int64_t at, std::int64_t count, const std::int32_t* index) {
        gather_row(from + (at - first) * step, step, stride, index, count, static_cast<T*>(args.outputs[0]) + at);
      });
    });
  });
}

// Calls f with a type of as many bytes.
template <class F>
std::unique_ptr<Kernel> with_element_of(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1: return f(TypeTag<std::uint8_t>{});
    case 2: return f(TypeTag<std::uint16_t>{});
    case 4: return f(TypeTag<std::uint32_t>{});
    default: return f(TypeTag<std::uint64_t>{});
  }
}

std::unique_ptr<Kernel> make_gather(const KernelRequest& request, std::string&) {
  return with_element_of(request.outputs[0].dtype,
                         [&](auto tag) { return make_typed_gather<typename decltype(tag)::type>(request); });
}

// -- writes -----------------------------------------------------------------------------------------------------

ScatterMode mode_of(const KernelRequest& request) {
  const auto* found =
      std::find(std::begin(kScatterModes), std::end(kScatterModes), request.attrs.as<ScatterAttrs>().mode);
  return static_cast<ScatterMode>(found - std::begin(kScatterModes));
}

// The result starts as x.
class Start {
 public:
  explicit Start(const TensorType& x)
      : chunks_(cut(static_cast<std::int64_t>(x.bytes()), kMoveCost / 4 * static_cast<double>(x.bytes()),
                    {.multiple = 64})) {}

  // All of it, on the threads of the device.
  void run(const KernelArgs& args) const {
    if (is_there(args)) return;
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) { copy(args, chunk.begin, chunk.size()); });
  }

  // A part that one thread is about to write to; in bytes.
  void run(const KernelArgs& args, std::int64_t begin, std::int64_t size) const {
    if (!is_there(args)) copy(args, begin, size);
  }

 private:
  static bool is_there(const KernelArgs& args) { return args.inputs[0] == args.outputs[0]; }
  static void copy(const KernelArgs& args, std::int64_t begin, std::int64_t size) {
    std::memcpy(static_cast<std::byte*>(args.outputs[0]) + begin, static_cast<const std::byte*>(args.inputs[0]) + begin,
                static_cast<std::size_t>(size));
  }

  Chunks chunks_;
};

// Cut between slabs before the axis, else between columns behind it.
template <class T>
std::unique_ptr<Kernel> make_typed_scatter_rows(const KernelRequest& request) {
  const TensorType& x = request.inputs[0].type;
  AxisLines lines(x.shape, request.attrs.as<ScatterAttrs>().axis, "scatter_rows");
  std::int64_t count = request.inputs[1].type.numel(), slab = count * lines.inner;
  double cost = (kIndexCost + kMoveCost * static_cast<double>(lines.inner)) * static_cast<double>(lines.outer * count);
  bool whole = lines.outer >= 2 * worthwhile_parts(cost);
  Chunks chunks = whole ? cut(lines.outer, cost) : cut(lines.inner, cost, {.multiple = 16, .least = 16});
  return make_kernel(
      [=, check = IndexCheck(request, lines.size), start = Start(x), mode = mode_of(request)](const KernelArgs& args) {
        check.run(args);
        start.run(args);
        auto* index = static_cast<const std::int32_t*>(args.inputs[1]);
        for_each_chunk(args, chunks, [&](const Chunk& chunk) {
          Chunk slabs = whole ? chunk : Chunk{0, 0, lines.outer}, columns = whole ? Chunk{0, 0, lines.inner} : chunk;
          for (std::int64_t outer = slabs.begin; outer < slabs.end; ++outer) {
            ASPEN_BEST(scatter_rows<T>)
            (mode, {count, lines.inner, columns.size()}, index,
             static_cast<const T*>(args.inputs[2]) + outer * slab + columns.begin,
             static_cast<T*>(args.outputs[0]) + outer * lines.size * lines.inner + columns.begin);
          }
        });
      });
}

// Groups of rows that differ before the axis meet nowhere, nor do columns that lie along another axis. Where every
// group has a part of the result to itself, that part begins as x just before it is written to, while it is in the
// cache.
class ScatterPieces {
 public:
  ScatterPieces(const KernelRequest& request, std::int64_t axis)
      : rows_(rows_of_index(request, axis)), start_(request.inputs[0].type) {
    const TensorType& x = request.inputs[0].type;
    const Shape& index = request.inputs[1].type.shape;
    if (rows_.size() == 0) return;  // no chunks
    std::int64_t groups = numel(Shape(index.begin(), index.begin() + axis));
    double cost = kIndexCost * static_cast<double>(rows_.size());
    bool whole_groups = rows_.num_rows() % groups == 0 && groups >= 2 * worthwhile_parts(cost);
    group_ = whole_groups ? rows_.num_rows() / groups : rows_.num_rows();
    cuts_columns_ = !whole_groups && rows_.strides()[0] != 0;
    // Narrow columns are read and written slowly: rows of a matrix often lie a multiple of 4096 bytes apart.
    chunks_ = whole_groups    ? cut(groups, cost)
              : cuts_columns_ ? cut(rows_.row_size(), cost, {.multiple = 64, .least = 128})
                              : Chunks(1, 1);
    if (whole_groups && std::equal(index.begin(), index.begin() + axis, x.shape.begin())) {
      slab_ = static_cast<std::int64_t>(x.bytes()) / groups;
    }
  }

  std::int64_t step() const { return rows_.strides()[0]; }

  // Calls piece(first, offset, count) for what has begun as x.
  template <class F>
  void for_each(const KernelArgs& args, F&& piece) const {
    if (slab_ == 0) start_.run(args);
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      std::int64_t begin = cuts_columns_ ? 0 : chunk.begin, end = cuts_columns_ ? 1 : chunk.end;
      std::int64_t column = cuts_columns_ ? chunk.begin : 0, n = cuts_columns_ ? chunk.size() : rows_.row_size();
      std::int64_t at_once = slab_ == 0 ? end - begin : std::max(kStartedBytes / slab_, std::int64_t{1});
      for (std::int64_t group = begin; group < end; group += at_once) {
        std::int64_t next = std::min(group + at_once, end);
        if (slab_ != 0) start_.run(args, group * slab_, (next - group) * slab_);
        rows_.for_each_row_in(group * group_, next * group_, [&](std::int64_t first, const auto& offsets) {
          piece(first + column, offsets[0] + column * rows_.strides()[0], n);
        });
      }
    });
  }

 private:
  static constexpr std::int64_t kStartedBytes = 16384;  // of the result: a part of the first cache level

  StridedRows<1> rows_;
  Start start_;
  std::int64_t group_ = 1;  // rows of a group
  std::int64_t slab_ = 0;   // bytes of the result that a group has to itself; 0: none
  bool cuts_columns_ = false;
  Chunks chunks_;
};

template <class T>
std::unique_ptr<Kernel> make_typed_scatter(const KernelRequest& request) {
  const TensorType& x = request.inputs[0].type;
  std::int64_t axis = normalize_axis(request.attrs.as<ScatterAttrs>().axis, x.shape, "scatter");
  std::int64_t stride = contiguous_strides(x.shape)[axis];
  return make_kernel([pieces = ScatterPieces(request, axis), check = IndexCheck(request, x.shape[axis]),
                      mode = mode_of(request), stride](const KernelArgs& args) {
    const bool is_over_input = args.inputs[0] == args.outputs[0];
    if (is_over_input) check.run(args);
    pieces.for_each(args, [&](std::int64_t first, std::int64_t offset, std::int64_t n) {
      check.for_each_block(args, first, first + n, [&](std::int64_t at, std::int64_t count, const std::int32_t* index) {
        ASPEN_BEST(scatter_elements<T>)
        (mode, {count, pieces.step(), stride}, index, static_cast<const T*>(args.inputs[2]) + at,
         static_cast<T*>(args.outputs[0]) + offset + (at - first) * pieces.step());
      });
    });
  });
}

// Cut between rows of the result if what goes to them is in their order, as in bags; else between columns.
class SumRows final : public Kernel {
 public:
  SumRows(const KernelRequest& request, double cost)
      : count_(request.inputs[1].type.numel()), rows_(request.outputs[0].shape[0]),
        columns_(request.outputs[0].shape[1]), by_rows_(cut(rows_, cost)),
        by_columns_(cut(columns_, cost, {.multiple = 16, .least = 16})),
        check_from_(request, request.inputs[0].type.shape[0]), check_to_(request, rows_, 2) {}

  void run(const KernelArgs& args) const override {
    check_from_.run(args);
    check_to_.run(args);
    const auto* x = static_cast<const float*>(args.inputs[0]);
    auto* y = static_cast<float*>(args.outputs[0]);
    const RowSums all{count_,
                      columns_,
                      columns_,
                      0,
                      rows_,
                      static_cast<const std::int32_t*>(args.inputs[1]),
                      static_cast<const std::int32_t*>(args.inputs[2])};
    if (ASPEN_BEST(is_ascending)(all.to, count_)) {
      for_each_chunk(args, by_rows_, [&](const Chunk& chunk) { ASPEN_BEST(sum_rows)(part(all, chunk), x, y); });
      return;
    }
    for_each_chunk(args, by_columns_, [&](const Chunk& chunk) {
      RowSums sums = all;
      sums.columns = chunk.size();
      ASPEN_BEST(sum_rows)(sums, x + chunk.begin, y + chunk.begin);
    });
  }

 private:
  // Of rows of the result.
  static RowSums part(const RowSums& all, const Chunk& rows) {
    const std::int32_t* end = all.to + all.count;
    const std::int32_t* first = std::lower_bound(all.to, end, rows.begin);
    const std::int64_t skipped = first - all.to;
    return {std::lower_bound(first, end, rows.end) - first,
            all.stride,
            all.columns,
            rows.begin,
            rows.end,
            all.from + skipped,
            first};
  }

  std::int64_t count_, rows_, columns_;
  Chunks by_rows_, by_columns_;
  IndexCheck check_from_, check_to_;
};

std::unique_ptr<Kernel> make_sum_rows(const KernelRequest& request, std::string& why) {
  const TensorType &x = request.inputs[0].type, &y = request.outputs[0];
  if (x.dtype != DType::kF32) {
    why = fmt::format("sum_rows: the loops add f32, not {}", to_string(x));
    return nullptr;
  }
  auto count = static_cast<double>(request.inputs[1].type.numel());
  double cost =
      count * (kIndexCost + kMoveCost * static_cast<double>(x.shape[1])) + kMoveCost * static_cast<double>(y.numel());
  return std::make_unique<SumRows>(request, cost);
}

// Set moves elements of any type; the others compute, in float32 and int32 (and half through float).
template <bool kRows>
std::unique_ptr<Kernel> make_write(const KernelRequest& request, std::string& why) {
  auto make = [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    if constexpr (kRows) return make_typed_scatter_rows<T>(request);
    return make_typed_scatter<T>(request);
  };
  DType dtype = request.outputs[0].dtype;
  if (mode_of(request) == ScatterMode::kSet) return with_element_of(dtype, make);
  if (dtype == DType::kF32) return make(TypeTag<float>{});
  if (dtype == DType::kI32) return make(TypeTag<std::int32_t>{});
  why = fmt::format("{}: the loops combine f32 and i32, not {}", request.op, to_string(request.outputs[0]));
  return nullptr;
}

}  // namespace

void register_index_cpu(KernelRegistry& kernels) {
  kernels.add("take", make_take);
  kernels.add("gather", make_gather);
  add_with_half(kernels, "sum_rows", make_sum_rows);
  add_with_half(kernels, "scatter", make_write<false>);
  kernels.add("scatter_rows", make_write<true>);
  kernels.add("scatter_rows", narrow_scatter_rows(make_write<true>));
  kernels.add("scatter_rows", widened(make_write<true>));
}

}  // namespace aspen
