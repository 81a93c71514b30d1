#include "poptorch/model/executable_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "aspen/base/log.h"
#include "aspen/program_file/program_file.h"
#include "poptorch/capture/stored_work.h"
#include "poptorch/model/byte_limit.h"

namespace poptorch {
namespace {

namespace fs = std::filesystem;

constexpr const char *kEnding = ".aspen", *kUnfinished = ".unfinished", *kKey = "key";
constexpr const char* kLimitVariable = "ASPEN_CACHE_LIMIT";
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr auto kLongestWait = std::chrono::minutes(10);  // for another process; then both compile

// The right to make one program. Held through a file beside the program's, which goes with the lock: the directory
// holds programs and nothing else. The system lets go of it if the process ends in any way.
class Turn {
 public:
  explicit Turn(fs::path file) : file_(std::move(file)) {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < kLongestWait) {
      descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
      if (descriptor_ < 0) return;  // the directory cannot be written, which keep() will say
      if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
        if (is_in_place()) return;
      } else if (errno != EWOULDBLOCK && errno != EINTR) {
        return;  // a file system without locks
      } else {
        has_waited = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      ::close(descriptor_);  // whoever had the turn has removed the file: another one may be there now
      descriptor_ = -1;
    }
  }
  ~Turn() {
    if (descriptor_ < 0) return;
    ::unlink(file_.c_str());
    ::flock(descriptor_, LOCK_UN);  // also for children of the process that have the descriptor
    ::close(descriptor_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool is_held() const { return descriptor_ >= 0; }
  bool has_waited = false;  // so that somebody else may have made the program meanwhile

 private:
  bool is_in_place() const {
    struct stat held = {}, there = {};
    return ::fstat(descriptor_, &held) == 0 && ::stat(file_.c_str(), &there) == 0 && held.st_ino == there.st_ino;
  }

  fs::path file_;
  int descriptor_ = -1;
};

struct Entry {
  fs::path file;
  fs::file_time_type used;
  std::uint64_t bytes = 0;
};

bool is_program(const fs::path& file) {
  const std::string stem = file.stem().string();
  return file.extension() == kEnding && stem.size() == 32 &&
         stem.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// What processes that were killed have left of the program: nobody else writes it in our turn.
void remove_left_behind(const fs::path& file) {
  std::error_code error;
  const std::string begin = file.filename().string() + ".";
  for (const fs::directory_entry& found : fs::directory_iterator(file.parent_path(), error)) {
    const std::string name = found.path().filename().string();
    const bool is_lock = name == file.filename().string() + kUnfinished;
    if (!is_lock && name.starts_with(begin) && name.ends_with(kUnfinished)) fs::remove(found.path(), error);
  }
}

}  // namespace

std::uint64_t cache_limit() { return bytes_in_environment("cache", kLimitVariable, 16 * kGiB); }

ExecutableCache::ExecutableCache(fs::path directory, std::uint64_t limit)
    : directory_(std::move(directory)), limit_(limit) {}

ExecutableCache::Found ExecutableCache::find_or_make(const ProgramKey& key, const aspen::Backend& backend,
                                                     const Make& make) const {
  if (!key.unknown_function.empty()) {
    aspen::log::debug("[cache] not used: {} is a function of this process alone", key.unknown_function);
    return {make(), false};
  }
  const std::string digest = key.digest(aspen::current_origin(backend));
  const fs::path file = directory_ / (digest + kEnding);
  if (auto program = find(file, digest, backend)) return {std::move(program), true};
  std::error_code error;
  fs::create_directories(directory_, error);
  const Turn turn(fs::path(file).concat(kUnfinished));
  if (turn.has_waited) {
    if (auto program = find(file, digest, backend)) return {std::move(program), true};
  }
  if (turn.is_held()) remove_left_behind(file);
  std::unique_ptr<aspen::Program> program = make();
  keep(file, digest, *program, backend);
  return {std::move(program), false};
}

std::unique_ptr<aspen::Program> ExecutableCache::find(const fs::path& file, const std::string& digest,
                                                      const aspen::Backend& backend) const {
  std::error_code error;
  if (!fs::exists(file, error)) {
    aspen::log::debug("[cache] miss: there is no {}", file.string());
    return nullptr;
  }
  try {
    const aspen::Sections sections = aspen::Sections::read(file);
    const auto stored = sections.get(kKey);
    if (!std::ranges::equal(stored, std::as_bytes(std::span(digest)))) {
      throw aspen::FileError("it is the program of another model");
    }
    auto program = aspen::load_program(sections, backend, read_host_function);
    check_host_calls(*program);
    fs::last_write_time(file, fs::file_time_type::clock::now(), error);  // it has been used
    aspen::log::debug("[cache] hit: {}", file.string());
    return program;
  } catch (const std::exception& refused) {
    aspen::log::debug("[cache] miss: {} cannot be used and is replaced: {}", file.string(), refused.what());
    return nullptr;
  }
}

void ExecutableCache::keep(const fs::path& file, const std::string& digest, const aspen::Program& program,
                           const aspen::Backend& backend) const {
  try {
    aspen::Sections sections;
    const auto key = std::as_bytes(std::span(digest));
    sections.set(kKey, {key.begin(), key.end()});
    aspen::store_program(sections, program, backend);
    sections.write(file);
    aspen::log::debug("[cache] kept: {}", file.string());
    make_room(file);
  } catch (const std::exception& refused) {
    aspen::log::warn("the compiled model is not kept in the cache \"{}\", and will be compiled again: {}",
                     directory_.string(), refused.what());
  }
}

void ExecutableCache::make_room(const fs::path& newest) const {
  std::vector<Entry> entries;
  std::uint64_t bytes = 0;
  std::error_code error;  // others may remove the same files
  for (const fs::directory_entry& found : fs::directory_iterator(directory_)) {
    const fs::path& file = found.path();
    const auto used = fs::last_write_time(file, error);
    if (error) continue;
    const std::uint64_t size = fs::file_size(file, error);
    if (error || !is_program(file)) continue;
    bytes += size;
    if (file != newest) entries.push_back({file, used, size});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used != b.used ? a.used < b.used : a.file < b.file; });
  for (const Entry& entry : entries) {
    if (bytes <= limit_) return;
    fs::remove(entry.file, error);
    bytes -= entry.bytes;
    aspen::log::debug("[cache] removed: {}, used longest ago; {} allows {} bytes", entry.file.string(), kLimitVariable,
                      limit_);
  }
}

}  // namespace poptorch
