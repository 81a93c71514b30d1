#include "poptorch/profiling.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>

#include "aspen/base/log.h"
#include "aspen/profiler/host_events.h"
#include "poptorch/api/literal.h"
#include "poptorch/error.h"

namespace poptorch::profiling {
namespace {

using Clock = std::chrono::steady_clock;

bool is_on(const OptionValue& value) {
  const auto* text = value.as<std::string>();
  return text == nullptr ? value.truth() : *text == "true";
}

// What PVTI_OPTIONS says: the folder of the trace, nothing if there shall be none.
std::optional<std::string> wanted_folder() {
  const char* written = std::getenv("PVTI_OPTIONS");
  if (written == nullptr || *written == '\0') return std::nullopt;
  const OptionValue value = parse_json(written, "PVTI_OPTIONS");
  const auto* options = value.as<OptionDict>();
  if (options == nullptr) {
    throw Error("[PVTI_OPTIONS] expected a JSON object, {\"enable\": \"true\", \"directory\": \"traces\"}.");
  }
  const auto enable = options->find(std::string("enable")), folder = options->find(std::string("directory"));
  if (enable == options->end() || !is_on(enable->second)) return std::nullopt;
  if (folder == options->end()) return ".";
  const auto* text = folder->second.as<std::string>();
  if (text == nullptr) throw Error("[PVTI_OPTIONS] \"directory\" must be a string.");
  return *text;
}

const std::optional<std::string>& folder() {
  static const std::optional<std::string> chosen = wanted_folder();
  return chosen;
}

std::string json_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + '"';
}

// A file for each process: one that was forked begins its own.
class Trace {
 public:
  void write(const std::string& event) {
    const std::lock_guard<std::mutex> turn(mutex_);
    if (process_ != getpid()) open();
    file_ << event << std::flush;  // whatever ends the process, what has been is in the file
  }

 private:
  void open() {
    process_ = getpid();
    std::filesystem::create_directories(*folder());
    const std::string path = (std::filesystem::path(*folder()) / fmt::format("poptorch_{}.json", process_)).string();
    file_ = std::ofstream(path);
    if (!file_) throw Error(fmt::format("[PVTI_OPTIONS] the trace \"{}\" cannot be written.", path));
    file_ << "[\n";  // the format lets the closing bracket be missing
    aspen::log::info("trace points are written to {}", path);
  }

  std::mutex mutex_;
  std::ofstream file_;
  pid_t process_ = 0;
};

Trace& trace() {
  static Trace made;
  return made;
}

double microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

}  // namespace

bool isWritingTrace() { return folder().has_value(); }

bool isTracing() { return isWritingTrace() || aspen::host_events::is_on(); }

Tracepoint::Tracepoint(std::string_view channel, std::string_view name) {
  if (!isTracing()) return;
  channel_ = channel;
  name_ = name;
  begin_ = Clock::now();
}

Tracepoint::~Tracepoint() {
  if (channel_.empty()) return;
  const auto end = Clock::now();
  try {
    if (isWritingTrace()) {
      trace().write(fmt::format(
          "{{\"name\": {}, \"cat\": {}, \"ph\": \"X\", \"ts\": {:.3f}, \"dur\": {:.3f}, \"pid\": {}, \"tid\": {}}},\n",
          json_text(name_), json_text(channel_), microseconds(begin_.time_since_epoch()), microseconds(end - begin_),
          getpid(), syscall(SYS_gettid)));
    }
    if (!aspen::host_events::is_on()) return;
    if (channel_ == kLoaderChannel && name_ == kNextItem) aspen::host_events::add_loading(end - begin_);
    aspen::host_events::add(std::move(channel_), std::move(name_), begin_, end);
  } catch (const std::exception& error) {
    aspen::log::error("a trace point was lost: {}", error.what());
  }
}

}  // namespace poptorch::profiling
