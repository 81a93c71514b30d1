#include "mutate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "aspen/program_file/sections.h"

namespace aspen::testing {
namespace {

constexpr std::size_t kHeader = 32, kEntry = 40;  // the header; a line of the table

std::size_t below(std::size_t count, Random& random) { return count == 0 ? 0 : random() % count; }

std::uint64_t load(const Bytes& bytes, std::size_t at, std::size_t size) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, size);
  return word;
}

void store(Bytes& bytes, std::size_t at, std::uint64_t word, std::size_t size) {
  std::memcpy(bytes.data() + at, &word, size);
}

// Numbers that programs stumble over.
std::uint64_t interesting(std::uint64_t word, Random& random) {
  switch (below(6, random)) {
    case 0: return word + 1;
    case 1: return word - 1;
    case 2: return below(130, random);
    case 3: return std::uint64_t{1} << below(64, random);
    case 4: return (std::uint64_t{1} << below(64, random)) - 1;
    default: return ~std::uint64_t{0} << below(64, random);
  }
}

void flip_bit(Bytes& bytes, Random& random) {
  if (bytes.empty()) return;
  bytes[below(bytes.size(), random)] ^= std::byte{1} << below(8, random);
}

void replace_word(Bytes& bytes, Random& random) {
  constexpr std::array<std::size_t, 4> kSizes = {1, 4, 8, 8};
  const std::size_t size = kSizes[below(4, random)];
  if (bytes.size() < size) return;
  const std::size_t at = below(bytes.size() - size + 1, random);
  store(bytes, at, interesting(load(bytes, at, size), random), size);
}

void cut_out(Bytes& bytes, Random& random) {
  const std::size_t begin = below(bytes.size(), random);
  const std::size_t count = std::min(bytes.size() - begin, 1 + below(64, random));
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(begin);
  bytes.erase(first, first + static_cast<std::ptrdiff_t>(count));
}

void cut_off(Bytes& bytes, Random& random) { bytes.resize(below(bytes.size(), random)); }

void put_in(Bytes& bytes, std::span<const std::byte> from, Random& random) {
  const std::size_t begin = below(from.size(), random);
  const auto piece = from.subspan(begin, std::min(from.size() - begin, 1 + below(128, random)));
  const Bytes copy(piece.begin(), piece.end());  // `from` may be the bytes themselves
  const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size() + 1, random));
  bytes.insert(at, copy.begin(), copy.end());
}

void overwrite(Bytes& bytes, std::span<const std::byte> from, Random& random) {
  const std::size_t at = below(bytes.size(), random), begin = below(from.size(), random);
  const std::size_t count = std::min({bytes.size() - at, from.size() - begin, 1 + below(128, random)});
  if (count > 0) std::memmove(bytes.data() + at, from.data() + begin, count);
}

Bytes copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

// One section changed, replaced by that of the other file, or by another one of its own.
Bytes mutate_section(const Sections& file, const Sections& other, Random& random) {
  Sections changed = file;
  const auto names = file.names(), others = other.names();
  if (names.empty()) throw FileError("it has no section to change");
  const bool is_program = file.has("program") && below(4, random) != 0;  // where most is to be got wrong
  const std::string name = is_program ? "program" : names[below(names.size(), random)];
  Bytes bytes = copy_of(file.get(name));
  const bool is_there = std::find(others.begin(), others.end(), name) != others.end();
  switch (below(16, random)) {
    case 0:
      if (is_there) bytes = copy_of(other.get(name));
      break;
    case 1: bytes = copy_of(file.get(names[below(names.size(), random)])); break;
    default: mutate_bytes(bytes, is_there ? other.get(name) : std::span<const std::byte>(), random);
  }
  changed.set(name, std::move(bytes));
  return changed.encode();
}

}  // namespace

void mutate_bytes(Bytes& bytes, std::span<const std::byte> other, Random& random) {
  for (std::size_t i = 0, count = 1 + below(4, random); i < count; ++i) {
    switch (below(12, random)) {
      case 0: cut_out(bytes, random); break;
      case 1: cut_off(bytes, random); break;
      case 2: put_in(bytes, bytes, random); break;
      case 3: put_in(bytes, other, random); break;
      case 4: overwrite(bytes, other, random); break;
      case 5: overwrite(bytes, bytes, random); break;
      case 6:
      case 7:
      case 8: flip_bit(bytes, random); break;
      default: replace_word(bytes, random);
    }
  }
}

void fix_checksums(Bytes& file) {
  if (file.size() < kHeader) return;
  const std::uint64_t num_sections = load(file, 12, 4);
  if (num_sections > (file.size() - kHeader) / kEntry) return;
  const std::span<const std::byte> bytes = file;
  for (std::size_t i = 0; i < num_sections; ++i) {
    const std::size_t entry = kHeader + i * kEntry;
    const std::uint64_t offset = load(file, entry + 16, 8), size = load(file, entry + 24, 8);
    if (offset > file.size() || size > file.size() - offset) continue;
    store(file, entry + 32, checksum(bytes.subspan(offset, size)), 8);
  }
  store(file, 24, 0, 8);
  const std::array<std::uint64_t, 2> both = {checksum(bytes.first(kHeader)),
                                             checksum(bytes.subspan(kHeader, num_sections * kEntry))};
  store(file, 24, checksum(std::as_bytes(std::span(both))), 8);
}

Bytes mutate_and_fix(const Bytes& file, const Bytes& other, Random& random) {
  if (below(8, random) != 0) {
    try {
      return mutate_section(Sections::decode(file), Sections::decode(other), random);
    } catch (const FileError&) {
      // One of them is no file to begin with, or an empty one.
    }
  }
  Bytes changed = file;
  if (below(2, random) == 0) {
    mutate_bytes(changed, other, random);
    if (changed.size() >= kHeader && below(2, random) == 0) store(changed, 16, changed.size(), 8);
  } else {
    Bytes head(changed.begin(),
               changed.begin() + static_cast<std::ptrdiff_t>(std::min(changed.size(), kHeader + 3 * kEntry)));
    const std::size_t size = head.size();
    mutate_bytes(head, other, random);
    head.resize(size);
    std::copy(head.begin(), head.end(), changed.begin());
  }
  fix_checksums(changed);
  return changed;
}

}  // namespace aspen::testing
