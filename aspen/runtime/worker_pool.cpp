#include "aspen/runtime/worker_pool.h"

#include <system_error>

#include "aspen/base/device_fault.h"
#include "aspen/runtime/cpu_share.h"
#include "aspen/runtime/run_control.h"

namespace aspen {

WorkerPool::WorkerPool(const std::vector<int>& cpus) {
  try {
    for (std::size_t i = 0; i < cpus.size(); ++i) {
      threads_.emplace_back([this, i] { loop(i); });
      if (cpus[i] >= 0) pin(threads_.back(), cpus[i]);
    }
  } catch (const std::system_error& e) {
    std::size_t started = threads_.size();
    stop();
    throw DeviceFault(Repair::kDeviceReset, "the program needs {} worker threads; the system gave {}: {}.", cpus.size(),
                      started, e.what());
  } catch (...) {
    stop();
    throw;
  }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(const std::function<void(std::size_t)>& work, const std::function<void()>& poll) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  num_working_ = threads_.size();
  ++num_runs_;
  started_.notify_all();
  auto is_done = [this] { return num_working_ == 0; };
  while (poll && !finished_.wait_for(lock, kStopInterval, is_done)) {
    lock.unlock();
    poll();
    lock.lock();
  }
  finished_.wait(lock, is_done);
  work_ = nullptr;
}

void WorkerPool::loop(std::size_t thread) {
  for (std::uint64_t seen = 0;;) {
    const std::function<void(std::size_t)>* work = nullptr;
    {
      std::unique_lock lock(mutex_);
      started_.wait(lock, [&] { return num_runs_ != seen || is_stopping_; });
      if (is_stopping_) return;
      seen = num_runs_;
      work = work_;
    }
    (*work)(thread);
    std::lock_guard lock(mutex_);
    if (--num_working_ == 0) finished_.notify_one();
  }
}

}  // namespace aspen
