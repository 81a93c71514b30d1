#include "aspen/backends/cpu/mapped_copy.h"

#include <numeric>

#define ASPEN_ISA_FILE "aspen/backends/cpu/mapped_copy.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

LineLoop line_loop(std::size_t element_size) {
  switch (element_size) {
    case 1: return ASPEN_BEST(mapped_lines_1);
    case 2: return ASPEN_BEST(mapped_lines_2);
    case 4: return ASPEN_BEST(mapped_lines_4);
    default: return ASPEN_BEST(mapped_lines_8);
  }
}

bool is_kept(const Places& places, std::int64_t extent) {
  if (std::ssize(places) != extent) return false;
  for (std::int64_t i = 0; i < extent; ++i) {
    if (places[i] != i) return false;
  }
  return true;
}

// Every place as a block of `block` elements.
Places in_blocks(const Places& places, std::int64_t block) {
  if (block == 1) return places;
  Places result;
  result.reserve(places.size() * static_cast<std::size_t>(block));
  for (std::int64_t place : places) {
    for (std::int64_t j = 0; j < block; ++j) result.push_back(place < 0 ? -1 : place * block + j);
  }
  return result;
}

// Moves with equal steps on both sides, each as long as it gets.
std::vector<LineRun> moves_of(const Places& places) {
  std::vector<LineRun> runs;
  for (std::int64_t to = 0; to < std::ssize(places); ++to) {
    std::int64_t from = places[to];
    if (from < 0) continue;
    LineRun* last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && last->count == 1) {
      *last = {2, last->to, to - last->to, last->from, from - last->from};
    } else if (last != nullptr && to == last->to + last->count * last->to_step &&
               from == last->from + last->count * last->from_step) {
      ++last->count;
    } else {
      runs.push_back({1, to, 1, from, 1});
    }
  }
  return runs;
}

// Around moves without gaps what they leave out, else everything.
std::vector<LineRun> fills_of(const Places& places, const std::vector<LineRun>& moves) {
  auto gapless = [](const LineRun& run) { return run.count == 1 || run.to_step == 1; };
  const auto size = std::ssize(places);
  if (!std::all_of(moves.begin(), moves.end(), gapless)) return {{size, 0, 1, 0, 0}};
  std::vector<LineRun> runs;
  for (std::int64_t to = 0; to < size; ++to) {
    if (places[to] >= 0) continue;
    if (!runs.empty() && runs.back().to + runs.back().count == to) {
      ++runs.back().count;
    } else {
      runs.push_back({1, to, 1, 0, 0});
    }
  }
  return runs;
}

// The part of a run that goes to places before `end`, counted from `begin`.
LineRun part_of(const LineRun& run, std::int64_t begin, std::int64_t end) {
  auto first_from = [&](std::int64_t place) {
    std::int64_t steps = (place - run.to + run.to_step - 1) / run.to_step;
    return std::clamp<std::int64_t>(place <= run.to ? 0 : steps, 0, run.count);
  };
  std::int64_t first = first_from(begin);
  return {first_from(end) - first, run.to + first * run.to_step - begin, run.to_step, run.from + first * run.from_step,
          run.from_step};
}

MappedLine piece_of(const MappedLine& line, const Chunk& chunk) {
  MappedLine piece = line;
  piece.size = chunk.size();
  piece.begin = chunk.begin;
  for (auto* runs : {&piece.fills, &piece.moves}) {
    for (LineRun& run : *runs) run = part_of(run, chunk.begin, chunk.end);
    std::erase_if(*runs, [](const LineRun& run) { return run.count == 0; });
  }
  return piece;
}

}  // namespace

MappedCopy::MappedCopy(std::size_t element_size, const Shape& from, const std::vector<Places>& places,
                       const void* value)
    : element_size_(static_cast<std::int64_t>(element_size)), loop_(line_loop(element_size)) {
  constexpr std::int64_t kLongBlock = 1024;  // bytes that make a line of their own
  MappedLine shared;
  std::memcpy(shared.value, value, element_size);
  std::int64_t block = 1;
  std::size_t axes = from.size();  // around the block of elements that stay together
  for (; axes > 0 && is_kept(places[axes - 1], from[axes - 1]); --axes) block *= from[axes - 1];
  bool is_line = axes == 0 || block * element_size_ >= kLongBlock;
  Places whole(is_line ? static_cast<std::size_t>(block) : 0);
  std::iota(whole.begin(), whole.end(), 0);
  Places line = is_line ? std::move(whole) : in_blocks(places[axes - 1], block);
  shared.size = shared.pitch = std::ssize(line);
  shared.moves = moves_of(line);
  shared.fills = fills_of(line, shared.moves);
  if (!is_line) block *= from[--axes];
  std::int64_t lines = shared.size > 0 ? 1 : 0;
  for (std::size_t a = axes; a-- > 0; block *= from[a]) {
    lines *= std::ssize(places[a]);
    std::vector<std::int64_t> sources;
    for (std::int64_t place : places[a]) sources.push_back(place < 0 ? -1 : place * block);
    sources_.insert(sources_.begin(), std::move(sources));
  }
  if (sources_.empty()) sources_.push_back({0});
  cut_work(shared, lines);
}

// Whole lines where there are enough of them, else pieces of every line.
void MappedCopy::cut_work(const MappedLine& line, std::int64_t num_lines) {
  double cost = kMoveCost / 4 * static_cast<double>(num_lines * line.size * element_size_);
  lines_ = Chunks(num_lines, num_lines);
  Chunks pieces(1, 1);
  if (num_lines < 2 * worthwhile_parts(cost)) pieces = cut(line.size, cost, {.multiple = 64});
  if (pieces.count() > 1) {
    for (std::int64_t i = 0; i < pieces.count(); ++i) pieces_.push_back(piece_of(line, pieces[i]));
    chunks_ = Chunks(pieces.count(), 1);
  } else {
    pieces_ = {line};
    chunks_ = cut(num_lines, cost);
  }
}

// Where the lines behind this place of all axes but the last start, -1 for the value.
std::int64_t MappedCopy::base_of(std::int64_t place) const {
  std::int64_t base = 0;
  for (std::size_t a = sources_.size() - 1; a-- > 0;) {
    std::int64_t source = sources_[a][place % std::ssize(sources_[a])];
    place /= std::ssize(sources_[a]);
    if (source < 0) return -1;
    base += source;
  }
  return base;
}

void MappedCopy::write(const MappedLine& piece, const Chunk& lines, const std::byte* from, std::byte* to) const {
  const std::vector<std::int64_t>& sources = sources_.back();
  const auto rows = std::ssize(sources);
  for (std::int64_t line = lines.begin; line < lines.end;) {
    std::int64_t row = line % rows, count = std::min(rows - row, lines.end - line);
    loop_(piece, from, base_of(line / rows), sources.data() + row, count,
          to + (line * piece.pitch + piece.begin) * element_size_);
    line += count;
  }
}

void MappedCopy::run(const KernelArgs& args, const void* from, void* to) const {
  for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
    bool whole = pieces_.size() == 1;
    write(pieces_[whole ? 0 : chunk.begin], whole ? chunk : lines_[0], static_cast<const std::byte*>(from),
          static_cast<std::byte*>(to));
  });
}

}  // namespace aspen
