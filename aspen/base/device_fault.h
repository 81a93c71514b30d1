// A device that has failed, and what repairs it. Thrown by the runtime where the system does not give a device what it
// runs on, and by whoever drives hardware of its own; the API makes RecoverableError and UnrecoverableError of it.
#pragma once

#include "aspen/base/error.h"

namespace aspen {

enum class Repair : std::uint8_t {
  kNothing,  // it is expected to fail again
  kDeviceReset,
  kLinkReset,
  kPartitionReset,
  kFullReset,
};

class DeviceFault : public DeviceError {
 public:
  template <class... Args>
  explicit DeviceFault(Repair repair, fmt::format_string<Args...> format, Args&&... args)
      : DeviceError(format, std::forward<Args>(args)...), repair_(repair) {}

  Repair repair() const { return repair_; }

 private:
  Repair repair_;
};

}  // namespace aspen
