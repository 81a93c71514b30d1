#include "aspen/compiler/memory/taken_bytes.h"

#include <algorithm>

namespace aspen {

void ByteRanges::add(std::size_t begin, std::size_t end) {
  // Those that overlap or touch the new range become one with it.
  auto from = std::lower_bound(ranges_.begin(), ranges_.end(), begin,
                               [](const Range& range, std::size_t byte) { return range.end < byte; });
  auto to = from;
  while (to != ranges_.end() && to->begin <= end) {
    begin = std::min(begin, to->begin);
    end = std::max(end, to->end);
    ++to;
  }
  if (from == to) {
    ranges_.insert(from, {begin, end});
    return;
  }
  *from = {begin, end};
  ranges_.erase(std::next(from), to);
}

const ByteRanges::Range* ByteRanges::first_after(std::size_t byte) const {
  auto found = std::upper_bound(ranges_.begin(), ranges_.end(), byte,
                                [](std::size_t value, const Range& range) { return value < range.end; });
  return found == ranges_.end() ? nullptr : &*found;
}

TakenBytes::TakenBytes(std::size_t num_times) {
  while (num_leaves_ < num_times) num_leaves_ *= 2;
  all_along_.resize(2 * num_leaves_);
  at_times_.resize(2 * num_leaves_);
}

// The fewest nodes that together last from `first` to `last`.
template <class F>
void TakenBytes::for_each_part(std::size_t first, std::size_t last, F&& visit) const {
  std::size_t left = first + num_leaves_, right = last + num_leaves_ + 1;
  for (; left < right; left /= 2, right /= 2) {
    if (left % 2 == 1) visit(left++);
    if (right % 2 == 1) visit(--right);
  }
}

// The nodes that hold the first moment or the last: every node above a part is among them, as it lasts longer than the
// span on one side.
template <class F>
void TakenBytes::for_each_above(std::size_t first, std::size_t last, F&& visit) const {
  std::size_t left = first + num_leaves_, right = last + num_leaves_;
  for (; left != right; left /= 2, right /= 2) {
    visit(left);
    visit(right);
  }
  for (; left > 0; left /= 2) visit(left);
}

std::size_t TakenBytes::find_room(std::size_t first, std::size_t last, std::size_t bytes) {
  asked_.clear();
  auto ask = [&](const ByteRanges& ranges) {
    if (!ranges.empty()) asked_.push_back(&ranges);
  };
  for_each_part(first, last, [&](std::size_t node) { ask(at_times_[node]); });
  for_each_above(first, last, [&](std::size_t node) { ask(all_along_[node]); });

  std::size_t offset = 0, num_clear = 0;  // of those asked last, how many had nothing in the way
  for (std::size_t i = 0; num_clear < asked_.size();) {
    const ByteRanges::Range* range = asked_[i]->first_after(offset);
    ++num_ranges_seen_;
    if (range != nullptr && range->begin < offset + bytes) {
      offset = range->end;
      num_clear = 0;
    } else {
      ++num_clear;
      i = (i + 1) % asked_.size();
    }
  }
  return offset;
}

void TakenBytes::take(std::size_t first, std::size_t last, std::size_t begin, std::size_t end) {
  for_each_part(first, last, [&](std::size_t node) {
    all_along_[node].add(begin, end);
    at_times_[node].add(begin, end);
  });
  for_each_above(first, last, [&](std::size_t node) { at_times_[node].add(begin, end); });
}

}  // namespace aspen
