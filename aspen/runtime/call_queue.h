// The calls of one executor, one at a time and in the order in which they came: nobody who calls again and again keeps
// the others waiting. Allocates nothing. Used by the executor for everything it is asked to do.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

namespace aspen {

class CallQueue {
 public:
  // A call; its turn lasts as long as the object. Waits for the calls that came before, and asks should_stop(), if
  // there is one, now and then meanwhile, without holding a lock: Interrupted if it says so. UserError if the calling
  // thread works for a call of the same queue: it would wait for itself.
  class Turn {
   public:
    explicit Turn(CallQueue& queue, const std::function<bool()>& should_stop = nullptr);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    friend class CallQueue;
    void wait(const std::function<bool()>& should_stop);
    void leave();

    CallQueue& queue_;
    Turn* next_ = nullptr;  // the call that came after this one
    std::condition_variable begins_;
  };

  // While it lives, the calling thread works for the call whose turn it is: calls of the same queue are refused, also
  // from within calls of others that this one makes.
  class Work {
   public:
    explicit Work(const CallQueue& queue) : queue_(queue), outer_(current_) { current_ = this; }
    ~Work() { current_ = outer_; }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    friend class CallQueue;
    const CallQueue& queue_;
    const Work* outer_;
  };

 private:
  bool is_served_here() const;

  static thread_local const Work* current_;

  std::mutex mutex_;
  Turn* first_ = nullptr;  // whose turn it is
  Turn* last_ = nullptr;
};

}  // namespace aspen
