#include "poptorch/api/guarded.h"

#include <algorithm>
#include <optional>

#include "aspen/base/device_fault.h"

namespace poptorch {
namespace {

const char* type_of(const aspen::Error& error) {
  if (dynamic_cast<const aspen::UserError*>(&error) != nullptr) return "poptorch_cpp_error";
  if (dynamic_cast<const aspen::DeviceError*>(&error) != nullptr) return "poptorch_device_error";
  return "poptorch_internal_error";
}

// The reset that repairs a device, nothing if none does. Where it is not known which, all of them do.
std::optional<std::string> recovery_action(const aspen::DeviceError& error) {
  const auto* fault = dynamic_cast<const aspen::DeviceFault*>(&error);
  switch (fault == nullptr ? aspen::Repair::kFullReset : fault->repair()) {
    case aspen::Repair::kNothing: return std::nullopt;
    case aspen::Repair::kDeviceReset: return "IPU_RESET";
    case aspen::Repair::kLinkReset: return "LINK_RESET";
    case aspen::Repair::kPartitionReset: return "PARTITION_RESET";
    case aspen::Repair::kFullReset: break;
  }
  return "FULL_RESET";
}

}  // namespace

void throw_as_own(const aspen::Error& error) {
  const std::string text = error.what();
  // The lines that say where: "  captured at ...", "  in op ..., captured at ...".
  const auto at = std::min(text.find("\n  captured at "), text.find("\n  in op "));
  const std::string message = text.substr(0, at), location = at == std::string::npos ? "" : text.substr(at + 3);
  const char* const type = type_of(error);
  if (const auto* failed = dynamic_cast<const aspen::DeviceError*>(&error)) {
    const std::optional<std::string> action = recovery_action(*failed);
    if (!action) throw UnrecoverableError(message, type, location);
    throw RecoverableError(message, type, location, *action);
  }
  throw Error(message, type, location);
}

}  // namespace poptorch
