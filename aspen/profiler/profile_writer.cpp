#include "aspen/profiler/profile_writer.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "aspen/base/log.h"
#include "aspen/profile/report.h"

namespace aspen {
namespace {

// The steps come first. A thread that cannot be told so works all the same.
void lower_priority() { static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19)); }

}  // namespace

void ProfileWriter::write(Make make) {
  const std::lock_guard<std::mutex> turn(mutex_);
  if (is_ending_) return;
  next_ = std::move(make);
  if (thread_ != nullptr) return changed_.notify_one();
  try {
    thread_ = std::make_unique<std::thread>([this] { run(); });
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

void ProfileWriter::finish() {
  {
    const std::lock_guard<std::mutex> turn(mutex_);
    is_ending_ = true;
    changed_.notify_one();
  }
  if (thread_ == nullptr) return;
  thread_->join();
  thread_.reset();
}

void ProfileWriter::run() {
  lower_priority();
  std::unique_lock<std::mutex> turn(mutex_);
  while (true) {
    changed_.wait(turn, [&] { return next_ || is_ending_; });
    if (!next_) return;
    const Make make = std::exchange(next_, nullptr);
    turn.unlock();
    const auto begin = Clock::now();
    write_now(make);
    last_duration_ = Clock::now() - begin;
    turn.lock();
  }
}

void ProfileWriter::write_now(const Make& make) {
  try {
    profile::write_run(folder_, make());
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

void ProfileWriter::warn(const std::string& problem) {
  if (std::exchange(has_warned_, true)) return;
  log::warn("the profile in \"{}\" could not be written, and the run goes on without it: {}", folder_.string(),
            problem);
}

}  // namespace aspen
