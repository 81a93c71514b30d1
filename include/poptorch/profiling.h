// Trace points: what a program and the library do, and when. With PVTI_OPTIONS={"enable": "true"} in the environment
// they are written to a file that viewers of Chrome's trace format show (Perfetto, chrome://tracing); without, they
// cost nothing. The library's own are on the channels "poptorch.trainingModel", "poptorch.inferenceModel" and
// "poptorch.DataLoader".
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace poptorch::profiling {

// Whether trace points are written. Error: PVTI_OPTIONS is not JSON.
bool isTracing();

// From its making to its end, on the thread that makes it.
class Tracepoint {
 public:
  Tracepoint(std::string_view channel, std::string_view name);
  ~Tracepoint();
  Tracepoint(const Tracepoint&) = delete;
  Tracepoint& operator=(const Tracepoint&) = delete;

 private:
  std::string channel_, name_;  // empty: nothing is written
  std::chrono::steady_clock::time_point begin_;
};

// A named stream of trace points.
class Channel {
 public:
  explicit Channel(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  Tracepoint tracepoint(std::string_view name) const { return {name_, name}; }

 private:
  std::string name_;
};

}  // namespace poptorch::profiling
