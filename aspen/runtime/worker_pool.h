// The threads of the crews: live as long as the executor, sleep between runs. The executor hands them a run and
// waits.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace aspen {

class WorkerPool {
 public:
  // Thread i stays on cpus[i]; -1: wherever the system puts it. DeviceError if a thread cannot be started or moved.
  explicit WorkerPool(const std::vector<int>& cpus);
  ~WorkerPool();

  // Calls work(i) on thread i and returns when all have returned; `work` must not throw. Calls poll(), if there is
  // one, now and then meanwhile on the calling thread.
  void run(const std::function<void(std::size_t thread)>& work, const std::function<void()>& poll);

 private:
  void loop(std::size_t thread);
  void stop();

  std::mutex mutex_;
  std::condition_variable started_, finished_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::uint64_t num_runs_ = 0;
  std::size_t num_working_ = 0;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace aspen
