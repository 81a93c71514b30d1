// Writes the folder of a profile on a thread of its own, at low priority. Used by the profiler. A fork has no such
// thread: it must neither call this nor destroy it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "aspen/profile/profile.h"

namespace aspen {

class ProfileWriter {
 public:
  using Clock = std::chrono::steady_clock;
  // Makes what is to be written, on the thread of the writer.
  using Make = std::function<profile::Profile()>;

  explicit ProfileWriter(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~ProfileWriter() { finish(); }
  ProfileWriter(const ProfileWriter&) = delete;
  ProfileWriter& operator=(const ProfileWriter&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  // Soon; in place of what has not been begun yet.
  void write(Make make);
  // Returns when everything is written; write() does nothing any more.
  void finish();
  Clock::duration last_duration() const { return last_duration_.load(); }

 private:
  void run();
  void write_now(const Make& make);
  void warn(const std::string& problem);

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Make next_;
  bool is_ending_ = false;
  bool has_warned_ = false;
  std::atomic<Clock::duration> last_duration_{Clock::duration::zero()};
  std::unique_ptr<std::thread> thread_;
};

}  // namespace aspen
