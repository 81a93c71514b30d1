// SharedFile: memory that other processes can read for as long as this one lives, as a file of a folder. OwnFiles: all
// of them that this process has. Who makes, destroys or lists them holds OwnFiles::mutex(), which no fork can come
// between.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace aspen {

inline constexpr std::string_view kUnfinishedPrefix = ".new-";  // of the names of files that are being written

class SharedFile {
 public:
  // folder: open, at `path`. Zeros, which `fill` turns into what others see first. A UserError says what the system
  // refused.
  SharedFile(int folder, std::string path, std::string name, std::size_t bytes,
             const std::function<void(std::byte*)>& fill);
  ~SharedFile();  // in the process that made it also removes the file
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  const std::string& folder() const { return folder_; }
  const std::string& name() const { return name_; }

 private:
  friend class OwnFiles;
  // In a fork: the memory becomes its own, with zeros in it, so that nothing of what it does looks like its parent's.
  void leave_to_parent();

  std::string folder_, name_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  int file_ = -1;
  const pid_t process_;
};

class OwnFiles {
 public:
  static OwnFiles& of_process();

  // Nothing that may need another lock, such as that of an interpreter, may be done while this is held.
  std::mutex& mutex() { return mutex_; }
  // "<pid>-<start of the process>-": a later process with the same pid began at another time.
  const std::string& prefix();
  std::string next_name();
  const std::vector<SharedFile*>& all() const { return files_; }

 private:
  friend class SharedFile;
  OwnFiles();
  void start_anew_after_fork();

  std::mutex mutex_;
  std::vector<SharedFile*> files_;
  std::string prefix_;  // empty: not asked for yet
  std::size_t num_names_ = 0;
};

}  // namespace aspen
