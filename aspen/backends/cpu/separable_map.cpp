#include "aspen/backends/cpu/separable_map.h"

#include <map>
#include <utility>

#include "aspen/backends/api/callable_kernel.h"

#define ASPEN_ISA_FILE "aspen/backends/cpu/separable_map.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

// Windows of weight 1 that move by `step`; empty if the taps are not such.
std::vector<RowTaps::Diagonal> diagonals_of(const TapLists& lists, std::int64_t step) {
  std::map<std::int64_t, RowTaps::Diagonal> by_shift;
  for (std::int64_t i = 0; i < std::ssize(lists); ++i) {
    for (const WeightedTap& tap : lists[i]) {
      std::int64_t shift = tap.index - i * step;
      auto [found, is_new] = by_shift.try_emplace(shift, RowTaps::Diagonal{i, i, shift});
      if (tap.weight != 1 || found->second.end != i) return {};
      found->second.end = i + 1;
    }
  }
  std::vector<RowTaps::Diagonal> diagonals;
  for (const auto& [shift, diagonal] : by_shift) diagonals.push_back(diagonal);
  // One that writes every output first, so that the others may add.
  auto covers = [&](const RowTaps::Diagonal& d) { return d.begin == 0 && d.end == std::ssize(lists); };
  std::stable_partition(diagonals.begin(), diagonals.end(), covers);
  return diagonals;
}

RowTaps row_taps(const MapAxis& axis) {
  if (axis.kept) return {.size = axis.inputs, .is_kept = true};
  const TapLists& lists = axis.taps;
  RowTaps taps{.size = std::ssize(lists), .step = axis.step};
  if (axis.step > 0) taps.diagonals = diagonals_of(lists, axis.step);
  if (!taps.diagonals.empty()) return taps;
  taps.per_output = std::ssize(lists[0]);
  for (const auto& list : lists) taps.per_output = std::min<std::int64_t>(taps.per_output, std::ssize(list));
  for (std::int64_t k = 0; k < taps.per_output; ++k) {
    for (const auto& list : lists) {
      taps.index.push_back(static_cast<std::int32_t>(list[k].index));
      taps.weight.push_back(list[k].weight);
    }
  }
  for (std::int64_t i = 0; i < taps.size; ++i) {
    for (std::int64_t k = taps.per_output; k < std::ssize(lists[i]); ++k) {
      taps.left.push_back({i, lists[i][k].index, lists[i][k].weight});
    }
  }
  bool all_one = std::all_of(taps.weight.begin(), taps.weight.end(), [](float weight) { return weight == 1; });
  taps.is_copy = taps.per_output == 1 && all_one && taps.left.empty();
  return taps;
}

TapLists lists_of(const MapAxis& axis) {
  if (!axis.kept) return axis.taps;
  TapLists lists;
  for (std::int64_t i = 0; i < axis.inputs; ++i) lists.push_back({{i, 1.0f}});
  return lists;
}

// Two axes as one.
TapLists product(const MapAxis& outer, const MapAxis& inner) {
  TapLists result, inner_lists = lists_of(inner);
  for (const auto& a : lists_of(outer)) {
    for (const auto& b : inner_lists) {
      std::vector<WeightedTap> list;
      for (const WeightedTap& p : a) {
        for (const WeightedTap& q : b) list.push_back({p.index * inner.inputs + q.index, p.weight * q.weight});
      }
      result.push_back(std::move(list));
    }
  }
  return result;
}

// From the first to the last row of any list.
std::int64_t longest_reach(const TapLists& lists) {
  std::int64_t reach = 1;
  for (const auto& list : lists) {
    if (list.empty()) continue;
    auto before = [](const WeightedTap& a, const WeightedTap& b) { return a.index < b.index; };
    auto [low, high] = std::minmax_element(list.begin(), list.end(), before);
    reach = std::max(reach, high->index - low->index + 1);
  }
  return reach;
}

bool is_copy(const std::vector<WeightedTap>& list) { return list.size() == 1 && list[0].weight == 1; }

}  // namespace

TapLists turned(const TapLists& lists, std::int64_t inputs) {
  TapLists result(static_cast<std::size_t>(inputs));
  for (std::size_t i = 0; i < lists.size(); ++i) {
    for (const WeightedTap& tap : lists[i]) result[tap.index].push_back({static_cast<std::int64_t>(i), tap.weight});
  }
  return result;
}

MapAxis turned(const MapAxis& axis) {
  return {turned(axis.taps, axis.inputs), std::ssize(axis.taps), axis.step == 1 ? 1 : 0};
}

SeparableMap::SeparableMap(std::int64_t planes, MapAxis (&axes)[3], Divisors divisors)
    : planes_(planes), width_(axes[2].inputs), source_rows_(axes[0].inputs * axes[1].inputs), along_(row_taps(axes[2])),
      rows_(product(axes[0], axes[1])), divisors_(std::move(divisors)),
      columns_first_(source_rows_ <= std::ssize(rows_) || divisors_.of == Divisors::Of::kInputs),
      slots_(columns_first_ ? longest_reach(rows_) : 1) {
  cut_work();
}

// Whole planes where there are enough of them, else bands of rows.
void SeparableMap::cut_work() {
  std::int64_t rows = std::ssize(rows_);
  double results = static_cast<double>(planes_ * along_.size * rows);
  double sources = static_cast<double>(planes_ * source_rows_ * width_);
  double cost = kMoveCost * (2 * results + sources);
  std::int64_t wanted = 2 * worthwhile_parts(cost);
  bands_ = planes_ >= wanted || planes_ == 0 ? 1 : std::min(rows, (wanted + planes_ - 1) / planes_);
  band_rows_ = (rows + bands_ - 1) / bands_;
  bands_ = (rows + band_rows_ - 1) / band_rows_;
  chunks_ = cut(planes_ * bands_, cost);
}

// The rows of one plane after the other. Columns first: rows of the source are mapped along the last axis as they are
// needed and kept in slots, of which those that one result needs at a time have one each. Else whole rows of the source
// are added up in one slot and mapped then.
class SeparableMap::Rows {
 public:
  Rows(const SeparableMap& map, std::byte* memory)
      : map_(map), held_(reinterpret_cast<std::int64_t*>(memory)),
        divided_(reinterpret_cast<float*>(held_ + map.slots_)), slots_(divided_ + map.width_) {}

  void run(const float* from, std::int64_t begin, std::int64_t end, float* to) {
    from_ = from;
    std::fill(held_, held_ + map_.slots_, -1);
    const std::int64_t n = map_.along_.size;
    for (std::int64_t r = begin; r < end; ++r) {
      if (r > begin && repeats(r)) {
        std::memcpy(to + r * n, to + (r - 1) * n, static_cast<std::size_t>(n) * sizeof(float));
        continue;
      }
      make_row(map_.rows_[r], to + r * n);
      if (map_.divisors_.of == Divisors::Of::kOutputs) divide(to + r * n, r, to + r * n, n);
    }
  }

 private:
  bool repeats(std::int64_t r) const {
    const auto &list = map_.rows_[r], &before = map_.rows_[r - 1];
    return map_.divisors_.of != Divisors::Of::kOutputs && is_copy(list) && is_copy(before) &&
           list[0].index == before[0].index;
  }

  void make_row(const std::vector<WeightedTap>& list, float* y) {
    if (is_copy(list)) return map_row(list[0].index, y);
    if (list.empty()) return std::fill(y, y + map_.along_.size, 0.0f);
    auto source_row = [&](std::int64_t row) { return from_ + row * map_.width_; };
    if (map_.along_.is_kept && map_.divisors_.of != Divisors::Of::kInputs) return sum(list, y, map_.width_, source_row);
    if (map_.columns_first_) {
      return sum(list, y, map_.along_.size, [&](std::int64_t row) { return mapped_row(row); });
    }
    sum(list, slots_, map_.width_, source_row);
    ASPEN_BEST(map_row)(map_.along_, slots_, y);
  }

  void map_row(std::int64_t row, float* y) const {
    const float* x = from_ + row * map_.width_;
    if (map_.divisors_.of == Divisors::Of::kInputs) {
      divide(x, row, divided_, map_.width_);
      x = divided_;
    }
    ASPEN_BEST(map_row)(map_.along_, x, y);
  }

  const float* mapped_row(std::int64_t row) {
    std::int64_t slot = row % map_.slots_;
    float* kept = slots_ + slot * map_.along_.size;
    if (held_[slot] != row) map_row(row, kept);
    held_[slot] = row;
    return kept;
  }

  void divide(const float* x, std::int64_t row, float* y, std::int64_t n) const {
    ASPEN_BEST(divide_row)(x, map_.divisors_.rows[row], map_.divisors_.columns.data(), y, n);
  }

  template <class RowAt>
  static void sum(const std::vector<WeightedTap>& list, float* y, std::int64_t n, RowAt&& row_at) {
    constexpr std::size_t kAtATime = 4;
    for (std::size_t first = 0; first < list.size(); first += kAtATime) {
      std::size_t count = std::min(kAtATime, list.size() - first);
      const float* rows[kAtATime];
      float weights[kAtATime];
      for (std::size_t k = 0; k < count; ++k) {
        rows[k] = row_at(list[first + k].index);
        weights[k] = list[first + k].weight;
      }
      auto add = first == 0 ? ASPEN_BEST(put_sum_of_rows) : ASPEN_BEST(add_sum_of_rows);
      add(rows, weights, static_cast<std::int64_t>(count), y, n);
    }
  }

  const SeparableMap& map_;
  std::int64_t* held_;
  float* divided_;
  float* slots_;
  const float* from_ = nullptr;
};

std::size_t SeparableMap::chunk_bytes() const {
  std::int64_t floats = width_ + std::max(slots_ * along_.size, width_);
  std::size_t bytes =
      static_cast<std::size_t>(slots_) * sizeof(std::int64_t) + static_cast<std::size_t>(floats) * sizeof(float);
  return (bytes + 63) / 64 * 64;
}

void SeparableMap::run(const KernelArgs& args, const float* from, float* to) const {
  const std::int64_t num_rows = std::ssize(rows_);
  for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
    Rows rows(*this, static_cast<std::byte*>(args.workspace) + static_cast<std::size_t>(chunk.index) * chunk_bytes());
    for (std::int64_t item = chunk.begin; item < chunk.end; ++item) {
      std::int64_t plane = item / bands_, begin = item % bands_ * band_rows_;
      rows.run(from + plane * source_rows_ * width_, begin, std::min(num_rows, begin + band_rows_),
               to + plane * num_rows * along_.size);
    }
  });
}

std::unique_ptr<Kernel> make_map_kernel(SeparableMap map) {
  std::size_t bytes = map.workspace_bytes();
  return make_kernel(
      [map = std::move(map)](const KernelArgs& args) {
        map.run(args, static_cast<const float*>(args.inputs[0]), static_cast<float*>(args.outputs[0]));
      },
      bytes);
}

}  // namespace aspen
