#include "aspen/base/whole_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <random>
#include <string>
#include <system_error>

#include "aspen/base/error.h"

namespace aspen {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnfinished = ".unfinished";
// A file is locked right after it was made; one that is younger may not be yet.
constexpr std::chrono::seconds kLeastAge{60};

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (is_open()) ::close(number_);
  }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

// Removes a file unless it was finished.
class Unfinished {
 public:
  explicit Unfinished(fs::path file) : file_(std::move(file)) {}
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    if (!is_finished) ::unlink(file_.c_str());
  }
  bool is_finished = false;

 private:
  fs::path file_;
};

std::string text_of(int error) { return std::system_category().message(error); }

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

[[noreturn]] void cannot_write(const fs::path& file, int error) {
  const std::string folder = folder_of(file).string();
  switch (error) {
    case ENOENT:
      throw UserError("[file] cannot write \"{}\": there is no folder \"{}\". Make it first.", file.string(), folder);
    case EACCES:
    case EPERM:
    case EROFS:
      throw UserError(
          "[file] cannot write \"{}\": {}. Choose a folder that may be written to, or change the permissions "
          "of \"{}\".",
          file.string(), text_of(error), folder);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      throw DeviceError(
          "[file] cannot write \"{}\": {}. What was there before is unchanged; make room, or choose another "
          "place, and try again.",
          file.string(), text_of(error));
    default:
      throw DeviceError("[file] cannot write \"{}\": {}. What was there before is unchanged.", file.string(),
                        text_of(error));
  }
}

void write_all(const Descriptor& to, std::span<const std::byte> bytes, const fs::path& file) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(to.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(file, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

// A new file beside the one that is meant. Its number tells apart all who write to the folder, on any machine.
fs::path unfinished_name(const fs::path& file) {
  std::random_device random;
  fs::path name = file;
  name += fmt::format(".{:08x}{:08x}{}", random(), random(), kUnfinished);
  return name;
}

bool is_abandoned(const fs::path& file) {
  std::error_code error;
  const auto written = fs::last_write_time(file, error);
  if (error || fs::file_time_type::clock::now() - written < kLeastAge) return false;
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  return descriptor.is_open() && ::flock(descriptor.number(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

void write_whole(const fs::path& file, const std::vector<std::span<const std::byte>>& pieces) {
  remove_unfinished(folder_of(file));
  const fs::path unfinished = unfinished_name(file);
  const Descriptor to(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!to.is_open()) cannot_write(file, errno);
  Unfinished guard(unfinished);
  // Says that somebody is at work; a file system without locks keeps what is left behind.
  static_cast<void>(::flock(to.number(), LOCK_EX | LOCK_NB));
  for (const auto piece : pieces) write_all(to, piece, file);
  if (::fsync(to.number()) != 0) cannot_write(file, errno);
  if (::rename(unfinished.c_str(), file.c_str()) != 0) cannot_write(file, errno);
  guard.is_finished = true;
}

std::vector<std::byte> read_whole(const fs::path& file) {
  const Descriptor from(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from.is_open()) throw UserError("[file] cannot open \"{}\": {}.", file.string(), text_of(errno));
  struct stat about = {};
  if (::fstat(from.number(), &about) != 0 || !S_ISREG(about.st_mode)) {
    throw UserError("[file] \"{}\" is not a file.", file.string());
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(about.st_size));
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got = ::read(from.number(), bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DeviceError("[file] cannot read \"{}\": {}.", file.string(), text_of(errno));
    if (got == 0) throw UserError("[file] \"{}\" became shorter while it was read.", file.string());
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

void remove_unfinished(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& file = entry->path();
    if (file.extension() == kUnfinished && is_abandoned(file)) ::unlink(file.c_str());
  }
}

}  // namespace aspen
