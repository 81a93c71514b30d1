#include "aspen/program_file/sections.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>

namespace aspen {
namespace {

constexpr std::array<char, 8> kMagic = {'A', 'S', 'P', 'E', 'N', 'P', 'R', 'G'};
constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kNameSize = 16, kAlignment = 64;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t format = kFormat;
  std::uint32_t num_sections = 0;
  std::uint64_t file_size = 0;
  std::uint64_t table_checksum = 0;  // of what lies before it and of the table
};

struct Entry {
  std::array<char, kNameSize> name = {};
  std::uint64_t offset = 0, size = 0, checksum = 0;
};

static_assert(sizeof(Header) == 32 && sizeof(Entry) == 40);

std::size_t aligned(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

std::uint64_t checksum_of(Header header, std::span<const Entry> table) {
  header.table_checksum = 0;
  const std::array<std::uint64_t, 2> both = {checksum(std::as_bytes(std::span(&header, 1))),
                                             checksum(std::as_bytes(table))};
  return checksum(std::as_bytes(std::span(both)));
}

std::string name_of(const Entry& entry) {
  return {entry.name.begin(), std::find(entry.name.begin(), entry.name.end(), '\0')};
}

// -- files ------------------------------------------------------------------------------------------------------------
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

std::string last_error() { return std::system_category().message(errno); }

// Removes a file that was not finished.
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path file) : file_(std::move(file)) {}
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    if (!is_finished) ::unlink(file_.c_str());
  }
  bool is_finished = false;

 private:
  std::filesystem::path file_;
};

[[noreturn]] void cannot_write(const std::filesystem::path& file, const std::string& why) {
  throw DeviceError(
      "[program file] cannot write \"{}\": {}. Nothing was written; make room or choose another place, and try again.",
      file.string(), why);
}

void write_all(const Descriptor& to, std::span<const std::byte> bytes, const std::filesystem::path& file) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(to.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) cannot_write(file, last_error());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

std::vector<std::byte> read_all(const std::filesystem::path& file) {
  const Descriptor from(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from.is_open()) throw UserError("[program file] cannot open \"{}\": {}.", file.string(), last_error());
  struct stat about = {};
  if (::fstat(from.number(), &about) != 0 || !S_ISREG(about.st_mode)) {
    throw UserError("[program file] \"{}\" is not a file.", file.string());
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(about.st_size));
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got = ::read(from.number(), bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw UserError("[program file] cannot read \"{}\": {}.", file.string(), last_error());
    if (got == 0) throw UserError("[program file] \"{}\" became shorter while it was read.", file.string());
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

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
  if (name.empty() || name.size() > kNameSize || name.find('\0') != std::string::npos) {
    throw InternalError("\"{}\" cannot name a section", name);
  }
  sections_[name] = std::move(bytes);
}

std::span<const std::byte> Sections::get(const std::string& name) const {
  auto found = sections_.find(name);
  if (found == sections_.end()) throw FileError("section \"{}\" is missing", name);
  return found->second;
}

std::vector<std::string> Sections::names() const {
  std::vector<std::string> result;
  for (const auto& [name, bytes] : sections_) result.push_back(name);
  return result;
}

std::vector<std::byte> Sections::encode() const {
  std::vector<Entry> table;
  std::size_t end = aligned(sizeof(Header) + sections_.size() * sizeof(Entry));
  for (const auto& [name, bytes] : sections_) {
    Entry& entry = table.emplace_back();
    std::copy(name.begin(), name.end(), entry.name.begin());
    entry.offset = end;
    entry.size = bytes.size();
    entry.checksum = checksum(bytes);
    end += aligned(bytes.size());
  }
  Header header{.num_sections = static_cast<std::uint32_t>(table.size()), .file_size = end};
  header.table_checksum = checksum_of(header, table);
  std::vector<std::byte> file(end);
  std::memcpy(file.data(), &header, sizeof(header));
  if (!table.empty()) std::memcpy(file.data() + sizeof(header), table.data(), table.size() * sizeof(Entry));
  std::size_t i = 0;
  for (const auto& [name, bytes] : sections_) {
    if (!bytes.empty()) std::memcpy(file.data() + table[i].offset, bytes.data(), bytes.size());
    ++i;
  }
  return file;
}

Sections Sections::decode(std::span<const std::byte> bytes) {
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
  if (header.num_sections > (bytes.size() - sizeof(header)) / sizeof(Entry)) {
    throw FileError("it is too short for its {} sections", header.num_sections);
  }
  std::vector<Entry> table(header.num_sections);
  if (!table.empty()) std::memcpy(table.data(), bytes.data() + sizeof(header), table.size() * sizeof(Entry));
  if (checksum_of(header, table) != header.table_checksum) throw FileError("its list of sections was changed");
  Sections result;
  for (const Entry& entry : table) {
    if (entry.offset > bytes.size() || entry.size > bytes.size() - entry.offset) {
      throw FileError("section \"{}\" reaches beyond its end", name_of(entry));
    }
    const auto section = bytes.subspan(static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.size));
    if (checksum(section) != entry.checksum) throw FileError("section \"{}\" was changed", name_of(entry));
    result.set(name_of(entry), {section.begin(), section.end()});
  }
  // What lies between the sections is part of the file, too.
  const std::vector<std::byte> again = result.encode();
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) throw FileError("its filling was changed");
  return result;
}

void Sections::write(const std::filesystem::path& file) const {
  static std::atomic<std::uint64_t> count{0};
  std::filesystem::path unfinished = file;
  unfinished += fmt::format(".{}.{}.unfinished", ::getpid(), count++);
  const std::vector<std::byte> bytes = encode();
  const Descriptor to(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!to.is_open()) cannot_write(file, last_error());
  Unfinished guard(unfinished);
  write_all(to, bytes, file);
  if (::fsync(to.number()) != 0) cannot_write(file, last_error());
  if (::rename(unfinished.c_str(), file.c_str()) != 0) cannot_write(file, last_error());
  guard.is_finished = true;
}

Sections Sections::read(const std::filesystem::path& file) {
  const std::vector<std::byte> bytes = read_all(file);
  try {
    return decode(bytes);
  } catch (const FileError& error) {
    throw FileError("[program file] \"{}\" cannot be used: {}. Write it again, or use another one.", file.string(),
                    error.what());
  }
}

}  // namespace aspen
