// A ring of events with room made beforehand: one thread writes, and whoever reads does so while it does not. What was
// written first may be kept; of the rest the latest is there. Used by run_recorder.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace aspen {

template <class Event>
class EventRing {
 public:
  explicit EventRing(std::size_t capacity) : events_(std::max<std::size_t>(capacity, 2)) {}

  // Takes the place of the oldest event that is not kept, if there is no room left.
  void push(const Event& event) {
    events_[place(end_)] = event;
    ++end_;
  }
  // Events are numbered from 0, in the order they came, whether they are still there or not.
  std::uint64_t end() const { return end_; }
  std::size_t capacity() const { return events_.size(); }
  // Keeps what has been written so far for good, up to half of the room. Nothing if some of it is gone already.
  void keep() {
    if (end_ <= events_.size()) num_kept_ = std::min<std::uint64_t>(end_, events_.size() / 2);
  }
  bool has(std::uint64_t number) const { return number < end_ && (number < num_kept_ || number >= oldest()); }
  const Event& operator[](std::uint64_t number) const { return events_[place(number)]; }
  // The first number after those that are kept of which the event is there.
  std::uint64_t oldest() const {
    const std::uint64_t room = events_.size() - num_kept_;
    return std::max(num_kept_, end_ > room ? end_ - room : 0);
  }
  std::uint64_t num_kept() const { return num_kept_; }
  template <class F>
  void for_each(const F& call) const {
    for (std::uint64_t i = 0; i < num_kept_; ++i) call(events_[i]);
    for (std::uint64_t i = oldest(); i < end_; ++i) call(events_[place(i)]);
  }

 private:
  std::size_t place(std::uint64_t number) const {
    return number < num_kept_ ? number : num_kept_ + (number - num_kept_) % (events_.size() - num_kept_);
  }

  std::vector<Event> events_;
  std::uint64_t end_ = 0, num_kept_ = 0;
};

}  // namespace aspen
