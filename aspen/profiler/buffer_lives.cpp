#include "aspen/profiler/buffer_lives.h"

#include <algorithm>

namespace aspen {
namespace {

bool overlap(const BufferRef& a, const BufferRef& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool is_same(const BufferRef& a, const BufferRef& b) {
  return a.arena == b.arena && a.owner == b.owner && a.offset == b.offset && a.bytes == b.bytes;
}

}  // namespace

template <class F>
void BufferLives::for_each_open(const BufferRef& place, const F& call) {
  for (const std::size_t i : open_) {
    if (overlap(lives_[i].place, place)) call(lives_[i]);
  }
}

void BufferLives::touch(BufferLife& life, std::int64_t row) const {
  if (row < 0) return;
  if (life.first < 0) life.first = row;
  life.last = std::max(life.last, row);
}

void BufferLives::read(const BufferRef& place, std::int64_t row) {
  if (is_here(place)) for_each_open(place, [&](BufferLife& life) { touch(life, row); });
}

void BufferLives::open(BufferLife life, std::int64_t row) {
  std::erase_if(open_, [&](std::size_t i) { return overlap(lives_[i].place, life.place); });
  touch(life, row);
  open_.push_back(lives_.size());
  lives_.push_back(life);
}

void BufferLives::input(const BufferRef& to, std::int64_t row) {
  if (is_here(to)) open({.place = to, .source = BufferLife::Source::kInput}, row);
}

void BufferLives::instruction(const Instruction& instruction, std::int64_t row) {
  for (const BufferRef& place : instruction.inputs) read(place, row);
  for (const BufferRef& place : instruction.outputs) {
    if (!is_here(place)) continue;
    const bool is_in_place = std::any_of(instruction.inputs.begin(), instruction.inputs.end(),
                                         [&](const BufferRef& input) { return is_same(input, place); });
    if (is_in_place) continue;
    open({.place = place, .producer = &instruction, .producer_row = row}, row);
  }
  if (is_here(instruction.workspace)) {
    open({.place = instruction.workspace,
          .source = BufferLife::Source::kWorkspace,
          .producer = &instruction,
          .producer_row = row},
         row);
  }
}

void BufferLives::output(const BufferRef& from, std::int64_t row) {
  if (!is_here(from)) return;
  for_each_open(from, [&](BufferLife& life) {
    touch(life, row);
    life.is_output = true;
  });
}

}  // namespace aspen
