// Which bytes of an arena are taken, and when. Finds the lowest room that is free over a span of time. Used by
// assign_offsets alone.
//
// A segment tree over time, in which a buffer is noted in the O(log n) nodes that make up its life (`all_along`: taken
// as long as the node lasts) and in those and the ones above them (`at_times`: taken at some time within the node).
// Whoever asks for a span looks into `at_times` of the nodes that make up the span and `all_along` of those above them.
// Ranges that touch are one: a stack of a thousand activations is a single range and not a thousand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace aspen {

// Ranges of bytes that neither overlap nor touch, ascending.
class ByteRanges {
 public:
  struct Range {
    std::size_t begin, end;
  };

  bool empty() const { return ranges_.empty(); }
  void add(std::size_t begin, std::size_t end);
  // The first range that ends after `byte`; nullptr: none does.
  const Range* first_after(std::size_t byte) const;

 private:
  std::vector<Range> ranges_;
};

class TakenBytes {
 public:
  explicit TakenBytes(std::size_t num_times);  // times are 0 .. num_times - 1

  // Lowest offset of `bytes` that are free from `first` to `last`, both included.
  std::size_t find_room(std::size_t first, std::size_t last, std::size_t bytes);
  void take(std::size_t first, std::size_t last, std::size_t begin, std::size_t end);
  std::size_t num_ranges_seen() const { return num_ranges_seen_; }

 private:
  template <class F>
  void for_each_part(std::size_t first, std::size_t last, F&& visit) const;
  template <class F>
  void for_each_above(std::size_t first, std::size_t last, F&& visit) const;

  std::size_t num_leaves_ = 1;                    // a power of two; node i has the children 2 i and 2 i + 1
  std::vector<ByteRanges> all_along_, at_times_;  // by node
  std::vector<const ByteRanges*> asked_;          // of the search under way
  std::size_t num_ranges_seen_ = 0;
};

}  // namespace aspen
