// Every element becomes a number that sorts as it should, its place behind it: all differ, so that any sort is stable.
// Long lines are sorted digit by digit; of the first few of a line only candidates are kept. Lines go to the threads.
#include "aspen/ops/sort/sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"

namespace aspen {
namespace {

using Keyed = std::uint64_t;  // the key above, the place along the line below

// The bits of a float of any size as a number in its order: the two zeros are equal, all NaN are and come last. Without
// branches, which nobody could foretell.
template <class Bits>
std::uint32_t float_key(Bits bits, Bits infinity) {
  constexpr std::uint32_t kSign = std::uint32_t{1} << (8 * sizeof(Bits) - 1), kAll = 2 * (kSign - 1) + 1;
  std::uint32_t magnitude = bits & (kSign - 1), negative = 0u - static_cast<std::uint32_t>((bits & kSign) != 0);
  negative = magnitude == 0 ? 0 : negative;
  std::uint32_t key = ((magnitude | kSign) ^ (negative & kAll)) & kAll;
  return magnitude > infinity ? kAll : key;
}

inline std::uint32_t key_of(float x) { return float_key(std::bit_cast<std::uint32_t>(x), 0x7f800000u); }
inline std::uint32_t key_of(Half x) {
  return float_key(std::bit_cast<std::uint16_t>(x), static_cast<std::uint16_t>(0x7c00));
}
inline std::uint32_t key_of(BFloat16 x) { return float_key(x.bits, static_cast<std::uint16_t>(0x7f80)); }
inline std::uint32_t key_of(std::int32_t x) { return static_cast<std::uint32_t>(x) ^ 0x80000000u; }
inline std::uint32_t key_of(std::int16_t x) { return static_cast<std::uint32_t>(x + 0x8000); }
inline std::uint32_t key_of(std::int8_t x) { return static_cast<std::uint32_t>(x + 0x80); }
inline std::uint32_t key_of(std::uint8_t x) { return x; }
inline std::uint32_t key_of(bool x) { return x ? 1 : 0; }

// Elements that are looked at together, to be passed by if none of them is among the first; and columns of elements
// that tell how far these go.
constexpr std::int64_t kBlock = 16, kColumns = 64;

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/sort/sort_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

template <class T>
struct Line {
  const T* x;
  std::int64_t size, stride;
  bool descending;

  std::uint32_t flip() const {
    return descending ? std::numeric_limits<std::uint32_t>::max() >> (32 - 8 * sizeof(T)) : 0;
  }
  std::uint32_t key(std::int64_t i) const { return key_of(x[i * stride]) ^ flip(); }
  Keyed operator[](std::int64_t i) const { return keyed(key(i), i); }
  static Keyed keyed(std::uint32_t key, std::int64_t i) {
    return static_cast<Keyed>(key) << 32 | static_cast<Keyed>(i);
  }
};

// -- all of a line ----------------------------------------------------------------------------------------------

// Stable by every digit from the lowest on; digits that all share are left out. Ends in `items` or `other`.
template <int kBits>
Keyed* sort_by_digits(Keyed* items, Keyed* other, std::int64_t n, int key_bits) {
  constexpr int kMostDigits = (32 + kBits - 1) / kBits;
  constexpr Keyed kMask = (Keyed{1} << kBits) - 1;
  std::array<std::array<std::uint32_t, std::size_t{1} << kBits>, kMostDigits> counts{};
  const int num_digits = (key_bits + kBits - 1) / kBits;
  for (std::int64_t i = 0; i < n; ++i) {
    for (int d = 0; d < num_digits; ++d) ++counts[d][items[i] >> (32 + d * kBits) & kMask];
  }
  for (int d = 0; d < num_digits; ++d) {
    const int shift = 32 + d * kBits;
    auto& starts = counts[d];
    if (starts[items[0] >> shift & kMask] == n) continue;
    std::uint32_t before = 0;
    for (std::uint32_t& start : starts) before += std::exchange(start, before);
    for (std::int64_t i = 0; i < n; ++i) other[starts[items[i] >> shift & kMask]++] = items[i];
    std::swap(items, other);
  }
  return items;
}

// Lines shorter than the first are compared, shorter than the second sorted by small digits.
constexpr std::int64_t kFewest = 200, kMany = 3000;

template <class T>
const Keyed* sort_all(const Line<T>& line, Keyed* items, Keyed* other) {
  for (std::int64_t i = 0; i < line.size; ++i) items[i] = line[i];
  if (line.size < kFewest) {
    std::sort(items, items + line.size);
    return items;
  }
  constexpr int kKeyBits = 8 * sizeof(T);
  return line.size < kMany ? sort_by_digits<8>(items, other, line.size, kKeyBits)
                           : sort_by_digits<11>(items, other, line.size, kKeyBits);
}

// -- the first of a line ----------------------------------------------------------------------------------------

std::int64_t room_for_candidates(std::int64_t wanted) { return 2 * std::max<std::int64_t>(wanted, 8); }

// Below which the first of a line are for sure.
template <class T>
Keyed first_limit(const Line<T>& line, std::int64_t wanted) {
  const bool is_known = line.stride == 1 && line.size >= 2 * kColumns && wanted <= kColumns / 4;
  if (!is_known) return std::numeric_limits<Keyed>::max();
  const std::uint32_t bound = ASPEN_BEST(bound_of_first<T>)(line.x, line.size, line.flip(), wanted);
  return Line<T>::keyed(bound, std::numeric_limits<std::uint32_t>::max());
}

// Keeps what is below the last one wanted so far, and drops what is not whenever there is no room. Most elements are
// passed by a block at a time.
template <class T>
const Keyed* sort_first(const Line<T>& line, std::int64_t wanted, Keyed* items) {
  const std::int64_t room = room_for_candidates(wanted);
  Keyed limit = first_limit(line, wanted);
  std::int64_t count = 0;
  for (std::int64_t begin = 0; begin < line.size; begin += kBlock) {
    if (line.stride == 1) {
      const auto limit_key = static_cast<std::uint32_t>(limit >> 32);
      begin = ASPEN_BEST(next_block<T>)(line.x, begin, line.size, line.flip(), limit_key);
    }
    const std::int64_t end = std::min(begin + kBlock, line.size);
    for (std::int64_t i = begin; i < end; ++i) {
      Keyed item = line[i];
      if (item >= limit) continue;
      items[count++] = item;
      if (count < room) continue;
      std::nth_element(items, items + wanted - 1, items + count);
      limit = items[wanted - 1];
      count = wanted;
    }
  }
  if (count > wanted) std::nth_element(items, items + wanted - 1, items + count);
  std::sort(items, items + wanted);
  return items;
}

// -- kernel -----------------------------------------------------------------------------------------------------

struct SortPlan {
  AxisLines lines;
  std::int64_t wanted;
  bool descending;
  Chunks chunks;  // of the lines

  bool keeps_few() const { return room_for_candidates(wanted) <= lines.size / 2; }
  std::int64_t items_per_chunk() const { return keeps_few() ? room_for_candidates(wanted) : 2 * lines.size; }
};

SortPlan sort_plan(const KernelRequest& request) {
  const auto& attrs = request.attrs.as<SortAttrs>();
  AxisLines lines(request.inputs[0].type.shape, attrs.axis, "sort");
  SortPlan plan{lines, attrs.wanted(lines.size), attrs.descending, {}};
  double cost = plan.keeps_few() ? kMathCost : 10 * kMathCost;
  std::int64_t num_lines = plan.wanted > 0 ? lines.outer * lines.inner : 0;
  plan.chunks = cut(num_lines, cost * static_cast<double>(num_lines * lines.size));
  return plan;
}

template <class T>
void sort_lines(const SortPlan& plan, const KernelArgs& args) {
  const std::int64_t inner = plan.lines.inner, size = plan.lines.size;
  for_each_chunk(args, plan.chunks, [&](const Chunk& chunk) {
    Keyed* items = static_cast<Keyed*>(args.workspace) + chunk.index * plan.items_per_chunk();
    for (std::int64_t number = chunk.begin; number < chunk.end; ++number) {
      std::int64_t outer = number / inner, column = number % inner, to = outer * plan.wanted * inner + column;
      const T* x = static_cast<const T*>(args.inputs[0]) + outer * size * inner + column;
      Line<T> line{x, size, inner, plan.descending};
      const Keyed* sorted =
          plan.keeps_few() ? sort_first(line, plan.wanted, items) : sort_all(line, items, items + size);
      for (std::int64_t k = 0; k < plan.wanted; ++k, to += inner) {
        auto place = static_cast<std::int32_t>(sorted[k] & 0xffffffffu);
        static_cast<T*>(args.outputs[0])[to] = x[place * inner];
        static_cast<std::int32_t*>(args.outputs[1])[to] = place;
      }
    }
  });
}

std::unique_ptr<Kernel> make_sort(const KernelRequest& request, std::string& why) {
  DType dtype = request.inputs[0].type.dtype;
  if (size_of(dtype) > sizeof(std::uint32_t)) {
    why = fmt::format("sort: keys are of 32 bits, {} has more", name_of(dtype));
    return nullptr;
  }
  SortPlan plan = sort_plan(request);
  auto bytes = static_cast<std::size_t>(plan.chunks.count() * plan.items_per_chunk()) * sizeof(Keyed);
  return dispatch_stored(dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) > sizeof(std::uint32_t)) {
      return nullptr;
    } else {
      return make_kernel([plan](const KernelArgs& args) { sort_lines<T>(plan, args); }, bytes);
    }
  });
}

}  // namespace

void register_sort_cpu(KernelRegistry& kernels) { kernels.add("sort", make_sort); }

}  // namespace aspen
