#include "poptorch/environment.h"

#include <fmt/format.h>

#include "aspen/base/log.h"
#include "aspen/ipus/ipu_ids.h"
#include "poptorch/api/guarded.h"
#include "poptorch/capture/recorder.h"
#include "poptorch/error.h"
#include "poptorch/model/ipus.h"

namespace poptorch {
namespace {

constexpr std::int64_t kGeneration = 2;

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::Trace: return "TRACE";
    case LogLevel::Debug: return "DEBUG";
    case LogLevel::Info: return "INFO";
    case LogLevel::Warn: return "WARN";
    case LogLevel::Err: return "ERR";
    case LogLevel::Off: break;
  }
  return "OFF";
}

}  // namespace

bool isRunningOnIpu() { return Recorder::current() != nullptr; }

std::int64_t getIpuTensorId(const at::Tensor& tensor) {
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr || !recorder->is_traced(tensor)) {
    throw Error(
        "[getIpuTensorId] the tensor is on the host; expected one of the model whose forward is being captured.");
  }
  return guarded([&] { return recorder->value_of(tensor)->id(); });
}

bool ipuHardwareIsAvailable(std::int64_t num_ipus) {
  return num_ipus <= aspen::kMaxIpus && !environment_asks_for_ipu_model();
}

std::int64_t ipuHardwareVersion() {
  if (!ipuHardwareIsAvailable()) {
    throw ArgumentError("There is no IPU hardware: POPTORCH_IPU_MODEL or POPTORCH_SMALL_IPU_MODEL is set");
  }
  return kGeneration;
}

void setLogLevel(LogLevel level) { aspen::log::set_level(name_of(level)); }

void setLogLevel(const std::string& name) {
  // Levels of more than one component; the library has one log.
  const std::string known = name == "TRACE_ALL" ? "TRACE" : name == "DEBUG_IR" ? "DEBUG" : name;
  for (const LogLevel level :
       {LogLevel::Trace, LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Err, LogLevel::Off}) {
    if (known == name_of(level)) return setLogLevel(level);
  }
  throw ValueError(fmt::format("Unknown log level \"{}\"; expected one of DEBUG, ERR, INFO, OFF, TRACE, WARN", name));
}

void setLogLevel(int level) {
  if (level < 0 || level == 5 || level > 6) {
    throw ValueError(fmt::format("Invalid log level integer {}; expected one of [0, 1, 2, 3, 4, 6]", level));
  }
  setLogLevel(static_cast<LogLevel>(level));
}

}  // namespace poptorch
