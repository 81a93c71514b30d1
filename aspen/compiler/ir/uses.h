// The uses of a value by ops, in the order in which they were made. A list, so that one of many uses is dropped without
// a look at the others: constants and weights have thousands.
#pragma once

#include <cstddef>
#include <list>
#include <vector>

namespace aspen {

class Op;

struct Use {
  Op* op = nullptr;
  std::size_t input = 0;  // of the op

  operator Op*() const { return op; }  // most ask who reads the value, not how
};

// One entry per use: an op that reads a value twice is in it twice.
class Uses {
 public:
  using Place = std::list<Use>::const_iterator;

  Place begin() const { return uses_.begin(); }
  Place end() const { return uses_.end(); }
  std::size_t size() const { return uses_.size(); }
  bool empty() const { return uses_.empty(); }
  Op* front() const { return uses_.front().op; }
  operator std::vector<Op*>() const { return {uses_.begin(), uses_.end()}; }  // for those who change them meanwhile

 private:
  friend class Op;
  Place add(Use use) { return uses_.insert(uses_.end(), use); }
  void drop(Place place) { uses_.erase(place); }

  std::list<Use> uses_;
};

}  // namespace aspen
