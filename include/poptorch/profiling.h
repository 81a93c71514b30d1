// Trace points: what a program and the library do, and when. While a model is profiled (Options::enableProfiling) they
// are part of its profile. With PVTI_OPTIONS={"enable": "true"} in the environment they are written to a file that
// viewers of Chrome's trace format show (Perfetto, chrome://tracing); without either, they cost nothing. The library's
// own are on the channels "poptorch.trainingModel", "poptorch.inferenceModel" and "poptorch.DataLoader".
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace poptorch::profiling {

// The channel of data loaders, and the point that is a wait for the next item.
inline constexpr std::string_view kLoaderChannel = "poptorch.DataLoader", kNextItem = "__next__";

// Whether trace points are kept: in a profile, or in a file of their own. Error: PVTI_OPTIONS is not JSON.
bool isTracing();
// Whether PVTI_OPTIONS asks for that file.
bool isWritingTrace();

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
