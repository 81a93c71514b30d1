#include "aspen/ipus/registration.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <mutex>
#include <new>
#include <thread>
#include <tuple>
#include <utility>

#include "aspen/base/error.h"
#include "aspen/base/log.h"
#include "aspen/ipus/attachments.h"
#include "aspen/ipus/device_lease.h"
#include "aspen/ipus/ipu_ids.h"
#include "aspen/ipus/meeting_place.h"

namespace aspen {
namespace {

constexpr mode_t kEverybodyTheirOwn = 01777;  // all may add files, and remove their own

// The folder of registrations while one is added. Who chooses IPUs does so alone, unless somebody takes too long: two
// executors on one IPU do each other no harm.
class Folder {
 public:
  explicit Folder(const std::string& path) {
    const bool is_new = mkdir(path.c_str(), kEverybodyTheirOwn) == 0;
    folder_ = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder_ < 0) throw UserError("{} cannot be opened: {}", path, std::strerror(errno));
    if (is_new) fchmod(folder_, kEverybodyTheirOwn);  // whatever the umask
    for (int tries = 0; flock(folder_, LOCK_EX | LOCK_NB) != 0 && tries < 100; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  ~Folder() { close(folder_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  operator int() const { return folder_; }

 private:
  int folder_ = -1;
};

// As the process was called, with spaces between the words.
std::string command_of_process() {
  std::ifstream file("/proc/self/cmdline");
  std::string text(std::istreambuf_iterator<char>(file), {});
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

template <std::size_t N>
void set_text(std::array<char, N>& to, const std::string& text) {
  text.copy(to.data(), N - 1);
}

std::array<std::int64_t, kMaxIpus> executors_on_ipus(const Attachments& attached) {
  std::array<std::int64_t, kMaxIpus> executors{};
  for (const Attachment& executor : attached.executors) {
    for (const AttachedIpu& ipu : executor.ipus) ++executors[static_cast<std::size_t>(ipu.ipu)];
  }
  const auto leased = leased_ipus();
  for (std::size_t ipu = 0; ipu < leased.size(); ++ipu) executors[ipu] += leased[ipu] ? 1 : 0;
  return executors;
}

// The first of `count` IPUs where there are fewest executors, aligned like the devices of so many.
std::int64_t first_free(const std::array<std::int64_t, kMaxIpus>& executors, std::int64_t count) {
  const std::int64_t used = std::min(count, kMaxIpus);
  const auto step = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(used)));
  std::int64_t best = 0, fewest = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t first = 0; first < kMaxIpus; first += step) {
    std::int64_t found = 0;
    for (std::int64_t ipu = first; ipu < first + used; ++ipu) found += executors[static_cast<std::size_t>(ipu)];
    if (found < fewest) std::tie(best, fewest) = std::pair(first, found);
  }
  return best;
}

void warn_once(const char* reason) {
  static std::atomic<bool> has_warned = false;
  if (has_warned.exchange(true)) return;
  log::warn("gc-monitor will not show this process: {}; ASPEN_IPU_LOCK may name another place", reason);
}

}  // namespace

Registration::Registration(const std::string& model, std::optional<std::int64_t> device,
                           std::vector<RegisteredIpu> ipus) {
  if (device) ipus.resize(std::max(ipus.size(), static_cast<std::size_t>(ipus_of_device(*device))));
  try {
    publish(model, device, ipus);
  } catch (const UserError& error) {
    warn_once(error.what());
    unshared_cells_ = std::vector<RegistrationCell>(ipus.size());
    cells_ = unshared_cells_.data();
  }
}

Registration::~Registration() {
  const std::scoped_lock lock(OwnFiles::of_process().mutex());
  file_.reset();
}

void Registration::publish(const std::string& model, std::optional<std::int64_t> device,
                           const std::vector<RegisteredIpu>& ipus) {
  if (ipus.size() > RegistrationHeader::kMaxCells) {
    throw UserError("{} IPUs of one executor are more than {}", ipus.size(), RegistrationHeader::kMaxCells);
  }
  const std::string path = ipu_folder_path();
  OwnFiles& own = OwnFiles::of_process();
  const std::scoped_lock lock(own.mutex());
  const Folder folder(path);
  const auto count = static_cast<std::int64_t>(ipus.size());
  const std::int64_t first =
      device ? first_ipu_of_device(*device) : first_free(executors_on_ipus(attachments_in(folder, path)), count);
  const auto fill = [&](std::byte* bytes) {
    auto* header = new (bytes) RegistrationHeader{
        .num_cells = static_cast<std::uint32_t>(ipus.size()), .pid = getpid(), .device = device.value_or(-1)};
    header->attached = std::chrono::nanoseconds(BusyClock::Clock::now().time_since_epoch()).count();
    set_text(header->model, model);
    set_text(header->command, command_of_process());
    cells_ = reinterpret_cast<RegistrationCell*>(bytes + sizeof(RegistrationHeader));
    for (std::size_t i = 0; i < ipus.size(); ++i) {
      new (&cells_[i]) RegistrationCell{.ipu = (first + static_cast<std::int64_t>(i)) % kMaxIpus,
                                        .memory = ipus[i].memory,
                                        .host_memory = ipus[i].host_memory};
    }
  };
  const std::size_t bytes = sizeof(RegistrationHeader) + ipus.size() * sizeof(RegistrationCell);
  file_ = std::make_unique<SharedFile>(folder, path, own.next_name(), bytes, fill);
}

}  // namespace aspen
