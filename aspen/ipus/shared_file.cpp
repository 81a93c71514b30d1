#include "aspen/ipus/shared_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "aspen/base/error.h"

namespace aspen {
namespace {

constexpr mode_t kReadableByAll = 0644;

// In ticks of the system since it booted; 0 if the system does not say.
std::string start_of_process() {
  std::ifstream file("/proc/self/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return "0";
  std::istringstream fields(text.substr(name_end + 1));
  std::string field = "0";
  for (int number = 3; number <= 22 && fields >> field;) ++number;
  return field;
}

[[noreturn]] void refuse(const std::string& folder, const std::string& name, const char* what, int error) {
  throw UserError("{}/{} {}: {}", folder, name, what, std::strerror(error));
}

}  // namespace

SharedFile::SharedFile(int folder, std::string path, std::string name, std::size_t bytes,
                       const std::function<void(std::byte*)>& fill)
    : folder_(std::move(path)), name_(std::move(name)), bytes_(bytes), process_(getpid()) {
  const std::string unfinished = std::string(kUnfinishedPrefix) + name_;
  file_ = openat(folder, unfinished.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kReadableByAll);
  if (file_ < 0) refuse(folder_, name_, "cannot be made", errno);
  const auto give_up = [&](const char* what, int error) {
    if (data_ != nullptr) munmap(data_, bytes_);
    close(file_);
    unlinkat(folder, unfinished.c_str(), 0);
    refuse(folder_, name_, what, error);
  };
  // All at once: a file with holes would end the process when it writes to a file system that has become full.
  if (const int error = posix_fallocate(file_, 0, static_cast<off_t>(bytes_))) give_up("gets no room", error);
  if (fchmod(file_, kReadableByAll) != 0) give_up("cannot be shown to others", errno);  // whatever the umask
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(file_, F_SETLK, &whole) != 0) give_up("cannot be locked", errno);
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) give_up("cannot be mapped", errno);
  data_ = static_cast<std::byte*>(mapped);
  fill(data_);
  if (renameat(folder, unfinished.c_str(), folder, name_.c_str()) != 0) give_up("cannot be given its name", errno);
  OwnFiles::of_process().files_.push_back(this);
}

SharedFile::~SharedFile() {
  munmap(data_, bytes_);
  if (getpid() != process_) return;
  std::erase(OwnFiles::of_process().files_, this);
  unlink((folder_ + "/" + name_).c_str());  // before the lock goes: nobody takes it for a file that was left behind
  close(file_);
}

void SharedFile::leave_to_parent() {
  // Should there be no page left, the child counts where its parent does: a monitor shows too much, nothing else.
  (void)mmap(data_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  close(file_);
}

OwnFiles& OwnFiles::of_process() {
  static auto* files = new OwnFiles;  // executors may go at the very end
  return *files;
}

OwnFiles::OwnFiles() {
  pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                 [] {
                   of_process().start_anew_after_fork();
                   of_process().mutex_.unlock();
                 });
}

void OwnFiles::start_anew_after_fork() {
  for (SharedFile* file : files_) file->leave_to_parent();
  files_.clear();
  prefix_.clear();
}

const std::string& OwnFiles::prefix() {
  if (prefix_.empty()) prefix_ = fmt::format("{}-{}-", getpid(), start_of_process());
  return prefix_;
}

std::string OwnFiles::next_name() { return prefix() + std::to_string(num_names_++); }

}  // namespace aspen
