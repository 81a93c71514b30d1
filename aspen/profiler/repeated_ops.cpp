#include "aspen/profiler/repeated_ops.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace aspen {
namespace {

// The parts of all memory that hold what depends on gradients.
class GradientPlaces {
 public:
  bool hold_any(const BufferRef& place) const {
    const auto found = ranges_.find(key(place));
    if (found == ranges_.end() || place.bytes == 0) return false;
    const auto after = found->second.lower_bound(place.offset + place.bytes);
    return after != found->second.begin() && std::prev(after)->second > place.offset;
  }

  void set(const BufferRef& place, bool is_gradient) {
    if (place.bytes == 0) return;
    Ranges& ranges = ranges_[key(place)];
    const std::size_t begin = place.offset, end = place.offset + place.bytes;
    cut(ranges, begin);
    cut(ranges, end);
    ranges.erase(ranges.lower_bound(begin), ranges.lower_bound(end));
    if (is_gradient) ranges[begin] = end;
  }

 private:
  using Ranges = std::map<std::size_t, std::size_t>;  // begin and end; they do not overlap

  static std::pair<Arena, std::size_t> key(const BufferRef& place) { return {place.arena, place.owner}; }

  // Makes two of a range that goes across `at`.
  static void cut(Ranges& ranges, std::size_t at) {
    const auto after = ranges.lower_bound(at);
    if (after == ranges.begin()) return;
    const auto range = std::prev(after);
    if (range->second <= at) return;
    ranges[at] = range->second;
    range->second = at;
  }

  std::map<std::pair<Arena, std::size_t>, Ranges> ranges_;
};

// What an op and its copies have in common. Groups are put together anew in the backward pass.
std::pair<std::string, std::string> likeness(const Instruction& instruction) {
  return {instruction.request.op, instruction.location};
}

}  // namespace

std::unordered_set<const Instruction*> repeated_ops(const Program& program) {
  std::unordered_set<const Instruction*> result;
  std::set<std::pair<std::string, std::string>> of_forward_pass;
  GradientPlaces gradients;
  for (const Task& task : program.step) {
    for (const InputCopy& copy : task.inputs) gradients.set(copy.to, false);
    for (const Instruction& instruction : task.instructions) {
      const bool is_reached = std::any_of(instruction.inputs.begin(), instruction.inputs.end(),
                                          [&](const BufferRef& place) { return gradients.hold_any(place); });
      const bool is_repeated =
          instruction.is_backward && !is_reached && of_forward_pass.count(likeness(instruction)) > 0;
      if (is_repeated) result.insert(&instruction);
      if (!instruction.is_backward) of_forward_pass.insert(likeness(instruction));
      // The first gradient comes from none.
      const bool is_gradient = instruction.is_backward && !is_repeated;
      for (const BufferRef& place : instruction.outputs) gradients.set(place, is_gradient);
      gradients.set(instruction.workspace, false);
    }
  }
  return result;
}

}  // namespace aspen
