#include "aspen/ipus/device_lease.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bitset>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "aspen/base/error.h"
#include "aspen/base/log.h"
#include "aspen/ipus/ipu_ids.h"
#include "aspen/ipus/meeting_place.h"

namespace aspen {
namespace {

constexpr const char* kWaitVariable = "POPTORCH_WAIT_FOR_IPU";
constexpr std::chrono::milliseconds kPollInterval{50};

// The IPUs that leases of this process hold. A lock on byte i of a file that all processes share stands for IPU i: such
// locks end with their process, but do not keep threads of one process apart, for which there is the table.
class TakenIpus {
 public:
  static TakenIpus& of_process() {
    static auto* ipus = new TakenIpus;  // leases may be let go of at the very end
    return *ipus;
  }

  bool take(std::int64_t first, std::int64_t count) {
    const std::scoped_lock lock(mutex_);
    forget_after_fork();
    follow_path();
    for (std::int64_t ipu = first; ipu < first + count; ++ipu) {
      if (taken_[static_cast<std::size_t>(ipu)]) return false;
    }
    if (!set_lock(F_WRLCK, first, count)) return false;
    for (std::int64_t ipu = first; ipu < first + count; ++ipu) taken_.set(static_cast<std::size_t>(ipu));
    return true;
  }

  std::bitset<kMaxIpus> of_all_processes() {
    const std::scoped_lock lock(mutex_);
    forget_after_fork();
    follow_path();
    std::bitset<kMaxIpus> ipus = taken_;
    // Not made for this.
    if (file_ < 0) file_ = open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    for (std::size_t ipu = 0; ipu < ipus.size(); ++ipu) {
      struct flock found {};
      found.l_type = F_WRLCK;
      found.l_whence = SEEK_SET;
      found.l_start = static_cast<off_t>(ipu);
      found.l_len = 1;
      if (fcntl(file_, F_GETLK, &found) == 0 && found.l_type != F_UNLCK) ipus.set(ipu);
    }
    return ipus;
  }

  void release(std::int64_t first, std::int64_t count) {
    const std::scoped_lock lock(mutex_);
    for (std::int64_t ipu = first; ipu < first + count; ++ipu) taken_.reset(static_cast<std::size_t>(ipu));
    set_lock(F_UNLCK, first, count);
  }

 private:
  // A child has what its parent remembers, and none of the parent's locks.
  void forget_after_fork() {
    if (process_ == getpid()) return;
    process_ = getpid();
    taken_.reset();
  }

  // The environment may name another file as long as nothing is taken.
  void follow_path() {
    if (taken_.any() || path_ == ipu_lock_path()) return;
    path_ = ipu_lock_path();
    if (file_ >= 0) close(file_);
    file_ = -1;
  }

  // False: another process has some of them.
  bool set_lock(short kind, std::int64_t first, std::int64_t count) {
    struct flock range {};
    range.l_type = kind;
    range.l_whence = SEEK_SET;
    range.l_start = first;
    range.l_len = count;
    if (fcntl(file(), F_SETLK, &range) == 0) return true;
    if (errno == EACCES || errno == EAGAIN) return false;
    throw UserError("[useIpuId] Failed to acquire IPUs: {} cannot be locked: {}.", path_, std::strerror(errno));
  }

  // Kept open: to close any descriptor of the file would end all locks of the process on it.
  int file() {
    if (file_ < 0) file_ = open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file_ < 0 && errno == ENOENT) {
      file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
      if (file_ >= 0 && fchmod(file_, 0666) != 0) log::debug("{} belongs to another user", path_);
    }
    if (file_ >= 0) return file_;
    throw UserError(
        "[useIpuId] Failed to acquire IPUs: {}, which keeps those of several processes apart, "
        "cannot be opened: {}.",
        path_, std::strerror(errno));
  }

  std::mutex mutex_;
  std::bitset<kMaxIpus> taken_;
  pid_t process_ = getpid();
  std::string path_ = ipu_lock_path();
  int file_ = -1;
};

double seconds_to_wait() {
  const char* text = std::getenv(kWaitVariable);
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end != '\0' || !(seconds >= 0)) {
    throw UserError("[useIpuId] {} is \"{}\"; expected the seconds to wait for a device, or 0.", kWaitVariable, text);
  }
  return seconds;
}

std::string ipus_text(std::int64_t first, std::int64_t count) {
  return count == 1 ? fmt::format("IPU {}", first) : fmt::format("IPUs {} to {}", first, first + count - 1);
}

}  // namespace

DeviceLease::DeviceLease(std::int64_t first_ipu, std::int64_t ipus)
    : first_ipu_(first_ipu), ipus_(ipus), process_(getpid()) {}

DeviceLease::~DeviceLease() {
  if (getpid() == process_) TakenIpus::of_process().release(first_ipu_, ipus_);
}

std::unique_ptr<DeviceLease> DeviceLease::take(std::int64_t device, const std::function<bool()>& should_stop) {
  using Clock = std::chrono::steady_clock;
  const std::int64_t ipus = ipus_of_device(device);
  if (ipus == 0) return nullptr;
  const std::int64_t first = first_ipu_of_device(device);
  const double patience = seconds_to_wait();
  const auto begin = Clock::now();
  bool has_told = false;
  while (!TakenIpus::of_process().take(first, ipus)) {
    if (std::chrono::duration<double>(Clock::now() - begin).count() >= patience) {
      throw UserError(
          "[useIpuId] Failed to acquire device {}: another executor, here or in another process, is attached to {}{}. "
          "Let it detachFromDevice() first (gc-monitor shows who has it), choose another id, or have {} say for how "
          "many seconds to wait.",
          device, ipus_text(first, ipus), patience > 0 ? fmt::format(" since {} seconds at least", patience) : "",
          kWaitVariable);
    }
    if (!std::exchange(has_told, true)) log::info("waiting for device {}, which another executor has", device);
    if (should_stop && should_stop()) throw Interrupted();
    std::this_thread::sleep_for(kPollInterval);
  }
  return std::unique_ptr<DeviceLease>(new DeviceLease(first, ipus));
}

std::bitset<kMaxIpus> leased_ipus() { return TakenIpus::of_process().of_all_processes(); }

}  // namespace aspen
