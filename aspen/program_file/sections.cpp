#include "aspen/program_file/sections.h"

#include <algorithm>
#include <array>

#include "aspen/base/whole_file.h"

namespace aspen {
namespace {

constexpr std::array<char, 8> kMagic = {'A', 'S', 'P', 'E', 'N', 'P', 'R', 'G'};
constexpr std::uint32_t kFormat = 4;
constexpr std::size_t kNameSize = 16, kAlignment = 64;
constexpr std::array<std::byte, kAlignment> kFilling = {};

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t format = kFormat;
  std::uint32_t num_sections = 0;
  std::uint64_t file_size = 0;
  std::uint64_t table_checksum = 0;
};

struct Entry {
  std::array<char, kNameSize> name = {};
  std::uint64_t offset = 0, size = 0, checksum = 0;
};

static_assert(sizeof(Header) == 32 && sizeof(Entry) == 40);

std::uint64_t aligned(std::uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

std::span<const std::byte> filling(std::uint64_t size) { return std::span(kFilling).first(aligned(size) - size); }

std::uint64_t checksum_of(Header header, std::span<const Entry> table) {
  header.table_checksum = 0;
  const std::array<std::uint64_t, 2> both = {checksum(std::as_bytes(std::span(&header, 1))),
                                             checksum(std::as_bytes(table))};
  return checksum(std::as_bytes(std::span(both)));
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameSize && name.find('\0') == std::string::npos;
}

std::array<char, kNameSize> filled_name(std::string_view name) {
  std::array<char, kNameSize> filled = {};
  std::copy(name.begin(), name.end(), filled.begin());
  return filled;
}

std::string name_of(const Entry& entry) {
  return {entry.name.begin(), std::find(entry.name.begin(), entry.name.end(), '\0')};
}

// -- reading ----------------------------------------------------------------------------------------------------------
Header read_header(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) throw FileError("it has {} bytes, less than any program", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) throw FileError("it does not begin like a program");
  if (header.format != kFormat) {
    throw FileError("it is written in format {}, and this version reads format {}; export the model again",
                    header.format, kFormat);
  }
  if (header.file_size != bytes.size()) {
    throw FileError("it has {} bytes where it had {} when it was written", bytes.size(), header.file_size);
  }
  return header;
}

std::vector<Entry> read_table(std::span<const std::byte> bytes, const Header& header) {
  if (header.num_sections > (bytes.size() - sizeof(header)) / sizeof(Entry)) {
    throw FileError("it is too short for its {} sections", header.num_sections);
  }
  std::vector<Entry> table(header.num_sections);
  if (!table.empty()) std::memcpy(table.data(), bytes.data() + sizeof(header), table.size() * sizeof(Entry));
  if (checksum_of(header, table) != header.table_checksum) throw FileError("its list of sections was changed");
  return table;
}

// Walks over a file whose every byte is known to be the header's, the table's, a section's or zero.
class FileWalk {
 public:
  explicit FileWalk(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> take(std::uint64_t offset, std::uint64_t size, const std::string& what) {
    if (offset != at_ || size > bytes_.size() - at_) throw FileError("{} is not where it should be", what);
    const auto taken = bytes_.subspan(at_, size);
    if (aligned(size) > bytes_.size() - at_) throw FileError("it ends after {}", what);
    const auto rest = bytes_.subspan(at_ + size, aligned(size) - size);
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    if (!std::all_of(rest.begin(), rest.end(), is_zero)) throw FileError("the filling after {} was changed", what);
    at_ += aligned(size);
    return taken;
  }
  void expect_end() const {
    if (at_ != bytes_.size()) throw FileError("{} bytes are left over", bytes_.size() - at_);
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

// Each word goes through a function that can be undone, given the state before: two texts that differ in one word end
// in different states.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kFactor = 0x9FB21C651E98DF25u;
  std::uint64_t state = 0x243F6A8885A308D3u ^ bytes.size();
  const auto mix = [&](std::uint64_t word) {
    state = (state ^ word) * kFactor;
    state ^= state >> 29;
  };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    mix(word);
  }
  std::uint64_t last = 0;
  if (at < bytes.size()) std::memcpy(&last, bytes.data() + at, bytes.size() - at);
  mix(last);
  return state ^ (state >> 32);
}

void Sections::set(const std::string& name, std::vector<std::byte> bytes) {
  if (!is_name(name)) throw InternalError("\"{}\" cannot name a section", name);
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  sections_[name] = {.owner = owner, .bytes = *owner};
}

std::span<const std::byte> Sections::get(const std::string& name) const {
  auto found = sections_.find(name);
  if (found == sections_.end()) throw FileError("section \"{}\" is missing", name);
  return found->second.bytes;
}

std::vector<std::string> Sections::names() const {
  std::vector<std::string> result;
  for (const auto& [name, section] : sections_) result.push_back(name);
  return result;
}

// Header and table.
std::vector<std::byte> Sections::head() const {
  std::vector<Entry> table;
  std::uint64_t end = aligned(sizeof(Header) + sections_.size() * sizeof(Entry));
  for (const auto& [name, section] : sections_) {
    table.push_back(
        {.name = filled_name(name), .offset = end, .size = section.bytes.size(), .checksum = checksum(section.bytes)});
    end += aligned(section.bytes.size());
  }
  Header header{.num_sections = static_cast<std::uint32_t>(table.size()), .file_size = end};
  header.table_checksum = checksum_of(header, table);
  std::vector<std::byte> bytes(sizeof(header) + table.size() * sizeof(Entry));
  std::memcpy(bytes.data(), &header, sizeof(header));
  if (!table.empty()) std::memcpy(bytes.data() + sizeof(header), table.data(), table.size() * sizeof(Entry));
  return bytes;
}

std::vector<std::span<const std::byte>> Sections::pieces(std::span<const std::byte> head) const {
  std::vector<std::span<const std::byte>> result = {head, filling(head.size())};
  for (const auto& [name, section] : sections_) {
    result.push_back(section.bytes);
    result.push_back(filling(section.bytes.size()));
  }
  return result;
}

std::vector<std::byte> Sections::encode() const {
  const std::vector<std::byte> beginning = head();
  std::vector<std::byte> file;
  for (const auto piece : pieces(beginning)) file.insert(file.end(), piece.begin(), piece.end());
  return file;
}

Sections Sections::decode(std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const Header header = read_header(*owner);
  const std::vector<Entry> table = read_table(*owner, header);
  FileWalk walk(*owner);
  walk.take(0, sizeof(Header) + table.size() * sizeof(Entry), "its list of sections");
  Sections result;
  for (const Entry& entry : table) {
    const std::string name = name_of(entry);
    const bool comes_next = result.sections_.empty() || result.sections_.rbegin()->first < name;
    if (!is_name(name) || entry.name != filled_name(name) || !comes_next) {
      throw FileError("the names of its sections are not in order");
    }
    const auto section = walk.take(entry.offset, entry.size, fmt::format("section \"{}\"", name));
    if (checksum(section) != entry.checksum) throw FileError("section \"{}\" was changed", name);
    result.sections_[name] = {.owner = owner, .bytes = section};
  }
  walk.expect_end();
  return result;
}

void Sections::write(const std::filesystem::path& file) const {
  const std::vector<std::byte> beginning = head();
  write_whole(file, pieces(beginning));
}

Sections Sections::read(const std::filesystem::path& file) {
  std::vector<std::byte> bytes = read_whole(file);
  try {
    return decode(std::move(bytes));
  } catch (const FileError& error) {
    throw FileError("[program file] \"{}\" cannot be used: {}. Write it again, or use another one.", file.string(),
                    error.what());
  }
}

}  // namespace aspen
