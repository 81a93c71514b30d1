#include "aspen/ipus/attachments.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "aspen/base/error.h"
#include "aspen/ipus/ipu_ids.h"
#include "aspen/ipus/meeting_place.h"
#include "aspen/ipus/registration_file.h"
#include "aspen/ipus/shared_file.h"

namespace aspen {
namespace {

using Clock = BusyClock::Clock;
using Bytes = std::vector<std::byte>;

constexpr std::time_t kUnfinishedSeconds = 60;  // nobody takes that long to write a file

class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}
  ~OpenFile() {
    if (file_ >= 0) close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  operator int() const { return file_; }

 private:
  int file_;
};

template <std::size_t N>
std::string text_of(const std::array<char, N>& text) {
  return {text.data(), std::find(text.begin(), text.end(), '\0')};
}

// Why the bytes are those of no executor, or nullptr and the executor.
const char* decode(std::span<const std::byte> bytes, Clock::time_point now, Attachment& result) {
  RegistrationHeader header;
  if (bytes.size() < sizeof header) return "it is too short";
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != RegistrationHeader::kMagic) return "it is something else";
  if (header.version != RegistrationHeader::kVersion) return "another version of Aspen wrote it";
  if (header.num_cells > RegistrationHeader::kMaxCells ||
      bytes.size() != sizeof header + header.num_cells * sizeof(RegistrationCell)) {
    return "its size is wrong";
  }
  const std::int64_t time = std::chrono::nanoseconds(now.time_since_epoch()).count();
  if (header.attached < 0) return "it was attached before there was time";
  result.pid = header.pid;
  result.command = text_of(header.command);
  result.model = text_of(header.model);
  if (ipus_of_device(header.device) > 0) result.device = header.device;
  result.seconds = 1e-9 * static_cast<double>(std::max<std::int64_t>(0, time - header.attached));
  for (std::size_t i = 0; i < header.num_cells; ++i) {
    RegistrationCell cell;
    const auto* from = bytes.data() + sizeof header + i * sizeof cell;
    std::memcpy(static_cast<void*>(&cell), from, sizeof cell);
    if (cell.ipu < 0 || cell.ipu >= kMaxIpus) return "it names an IPU that there is not";
    result.ipus.push_back({cell.ipu, cell.memory, cell.host_memory, busy_at(cell.busy, now)});
  }
  return nullptr;
}

// A little more than a file may have shows that it has too much.
Bytes contents(int file) {
  Bytes bytes(sizeof(RegistrationHeader) + RegistrationHeader::kMaxCells * sizeof(RegistrationCell) + 1);
  const ssize_t read = pread(file, bytes.data(), bytes.size(), 0);
  bytes.resize(read < 0 ? 0 : static_cast<std::size_t>(read));
  return bytes;
}

// As others would read it; the busy times change meanwhile.
Bytes contents(const SharedFile& file) {
  Bytes bytes(file.size());
  std::memcpy(bytes.data(), file.data(), sizeof(RegistrationHeader));
  const auto* cells = reinterpret_cast<const RegistrationCell*>(file.data() + sizeof(RegistrationHeader));
  for (std::size_t at = sizeof(RegistrationHeader); at < bytes.size(); at += sizeof(RegistrationCell), ++cells) {
    RegistrationCell cell{.ipu = cells->ipu, .memory = cells->memory, .host_memory = cells->host_memory};
    cell.busy = cells->busy.load(std::memory_order_relaxed);
    std::memcpy(bytes.data() + at, static_cast<const void*>(&cell), sizeof cell);
  }
  return bytes;
}

// The pid of the process that has the file, 0 if this process cannot see it; nothing: it is gone.
std::optional<pid_t> owner(int file) {
  struct flock found {};
  found.l_type = F_WRLCK;
  found.l_whence = SEEK_SET;
  if (fcntl(file, F_GETLK, &found) != 0) return 0;
  if (found.l_type == F_UNLCK) return std::nullopt;
  return std::max<pid_t>(found.l_pid, 0);
}

// Names that a registration may have: others in the folder are none of ours.
bool is_name(std::string_view name) {
  const auto is_part = [](unsigned char c) { return std::isdigit(c) != 0 || c == '-'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0 &&
         std::all_of(name.begin(), name.end(), is_part);
}

void remove_if_left_behind(int folder, const char* name) {
  struct stat found {};
  if (fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (std::time(nullptr) - found.st_mtime > kUnfinishedSeconds) unlinkat(folder, name, 0);
}

void read_file(int folder, const char* name, Attachments& result) {
  // A pipe of that name would wait for a writer.
  const OpenFile file(openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file < 0) {
    if (errno != ENOENT) result.passed_by.push_back(fmt::format("{}: {}", name, std::strerror(errno)));
    return;
  }
  struct stat about {};
  if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return;
  const auto process = owner(file);
  if (!process) {
    unlinkat(folder, name, 0);  // only root and its owner may: who else sees it leaves it
    return;
  }
  Attachment executor{.key = name, .user = about.st_uid};
  const Bytes bytes = contents(file);
  if (const char* reason = decode(bytes, result.time, executor)) {
    result.passed_by.push_back(fmt::format("{}: {}", name, reason));
    return;
  }
  if (*process != 0) executor.pid = *process;
  result.executors.push_back(std::move(executor));
}

// To open a file of this process, and close it, would end its lock.
void read_others(int folder, Attachments& result) {
  const std::string& own = OwnFiles::of_process().prefix();
  const int listed = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(listed < 0 ? nullptr : fdopendir(listed), closedir);
  while (const dirent* entry = entries ? readdir(entries.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(kUnfinishedPrefix)) remove_if_left_behind(folder, entry->d_name);
    if (is_name(name) && !name.starts_with(own)) read_file(folder, entry->d_name, result);
  }
}

void read_own(const std::string& folder, Attachments& result) {
  for (const SharedFile* file : OwnFiles::of_process().all()) {
    if (file->folder() != folder) continue;
    Attachment executor{.key = file->name(), .user = geteuid()};
    if (decode(contents(*file), result.time, executor) == nullptr) result.executors.push_back(std::move(executor));
  }
}

}  // namespace

Attachments attachments_in(int folder, const std::string& path) {
  Attachments result{.time = Clock::now()};
  read_others(folder, result);
  read_own(path, result);
  const auto order = [](const Attachment& a, const Attachment& b) {
    return std::tie(a.pid, b.seconds, a.key) < std::tie(b.pid, a.seconds, b.key);
  };
  std::sort(result.executors.begin(), result.executors.end(), order);
  return result;
}

Attachments read_attachments() {
  const std::string path = ipu_folder_path();
  const std::scoped_lock lock(OwnFiles::of_process().mutex());
  const OpenFile folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (folder >= 0) return attachments_in(folder, path);
  if (errno == ENOENT) return {.time = Clock::now()};
  throw UserError("{}, which says who is attached, cannot be read: {}. ASPEN_IPU_LOCK may name another place.", path,
                  std::strerror(errno));
}

std::string user_name(uid_t user) {
  struct passwd entry {};
  struct passwd* found = nullptr;
  std::array<char, 4096> room;
  if (getpwuid_r(user, &entry, room.data(), room.size(), &found) == 0 && found != nullptr) return found->pw_name;
  return std::to_string(user);
}

double utilisation(const Attachments& before, const Attachments& after, const Attachment& executor,
                   const AttachedIpu& ipu) {
  const auto position = static_cast<std::size_t>(&ipu - executor.ipus.data());
  double elapsed = executor.seconds, earlier = 0;
  for (const Attachment& candidate : before.executors) {
    if (candidate.key != executor.key || candidate.ipus.size() <= position) continue;
    elapsed = std::chrono::duration<double>(after.time - before.time).count();
    earlier = static_cast<double>(candidate.ipus[position].busy);
  }
  if (elapsed <= 0) return 0;
  return std::clamp((static_cast<double>(ipu.busy) - earlier) * 1e-9 / elapsed, 0.0, 1.0);
}

}  // namespace aspen
