// A fork of a test that does something and then waits, until it is killed.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <stdexcept>

namespace aspen::testing {

class ChildProcess {
 public:
  // Returns when `body` has come to its end in the child, where what it holds lives on: it is given a function that
  // waits for ever. An exception in it is one here.
  using Wait = std::function<void()>;
  explicit ChildProcess(const std::function<void(const Wait& wait)>& body) {
    std::array<int, 2> pipe_ends;
    if (::pipe(pipe_ends.data()) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(pipe_ends[0]);
      try {
        body([&] {
          const char done = '!';
          if (::write(pipe_ends[1], &done, 1) == 1) {
            while (true) ::pause();
          }
        });
      } catch (...) {
      }
      ::_exit(1);
    }
    ::close(pipe_ends[1]);
    char done = 0;
    const bool is_ready = ::read(pipe_ends[0], &done, 1) == 1;
    ::close(pipe_ends[0]);
    if (!is_ready) {
      kill();
      throw std::runtime_error("the child did not come to its end");
    }
  }
  ~ChildProcess() { kill(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void kill() {
    kill_without_reaping();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Its entry stays until kill(): a zombie.
  void kill_without_reaping() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace aspen::testing
