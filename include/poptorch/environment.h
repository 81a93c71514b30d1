// Where the program runs, and how much the library tells of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace poptorch {

// True while a forward is being captured on this thread.
bool isRunningOnIpu();

// A number for the contents of a tensor of the model that is being captured: another tensor has another, and so has
// this one after it is written. An Error for a tensor that is no part of it.
std::int64_t getIpuTensorId(const at::Tensor& tensor);

// Whether there is a device of so many IPUs. Virtual IPUs are the hardware here, unless POPTORCH_IPU_MODEL or
// POPTORCH_SMALL_IPU_MODEL asks for a model of it.
bool ipuHardwareIsAvailable(std::int64_t num_ipus = 1);
// The generation that the virtual IPUs stand for. An ArgumentError if there are none.
std::int64_t ipuHardwareVersion();

enum class LogLevel { Trace = 0, Debug = 1, Info = 2, Warn = 3, Err = 4, Off = 6 };
void setLogLevel(LogLevel level);
// TRACE, DEBUG, INFO, WARN, ERR or OFF, or the number of a level. A ValueError for any other.
void setLogLevel(const std::string& name);
void setLogLevel(int level);

}  // namespace poptorch
