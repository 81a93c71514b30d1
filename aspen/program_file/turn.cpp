#include "aspen/program_file/turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace aspen {
namespace {

constexpr auto kLongestWait = std::chrono::minutes(10);  // for another process; then both do it

}  // namespace

Turn::Turn(std::filesystem::path file) : file_(std::move(file)) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < kLongestWait) {
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) return;  // who writes the thing itself will say why
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
      if (is_in_place()) return;
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
      return;  // a file system without locks
    } else {
      has_waited_ = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ::close(descriptor_);  // whoever had the turn has removed the file: another one may be there now
    descriptor_ = -1;
  }
}

Turn::~Turn() {
  if (descriptor_ < 0) return;
  ::unlink(file_.c_str());
  ::flock(descriptor_, LOCK_UN);  // also for children of the process that have the descriptor
  ::close(descriptor_);
}

bool Turn::is_in_place() const {
  struct stat held = {}, there = {};
  return ::fstat(descriptor_, &held) == 0 && ::stat(file_.c_str(), &there) == 0 && held.st_ino == there.st_ino;
}

}  // namespace aspen
