// When the transfers of one tensor of one replica took place: written by a worker or an output sink while a program
// runs, read by the executor afterwards. There is room for all stamps before the run begins.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace aspen {

class TransferStamps {
 public:
  using Clock = std::chrono::steady_clock;
  struct Span {
    Clock::time_point begin, end;
  };

  // Forgets the last run; `count` transfers are to come.
  void begin(std::int64_t count) { spans_.resize(static_cast<std::size_t>(count)); }
  void set(std::int64_t number, Clock::time_point begin, Clock::time_point end) {
    spans_[static_cast<std::size_t>(number)] = {begin, end};
  }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  std::vector<Span> spans_;
};

}  // namespace aspen
