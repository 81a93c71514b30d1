#include "poptorch/api/guarded.h"

#include <algorithm>

namespace poptorch {
namespace {

const char* type_of(const aspen::Error& error) {
  if (dynamic_cast<const aspen::UserError*>(&error) != nullptr) return "poptorch_cpp_error";
  if (dynamic_cast<const aspen::DeviceError*>(&error) != nullptr) return "poptorch_device_error";
  return "poptorch_internal_error";
}

}  // namespace

Error as_own(const aspen::Error& error) {
  const std::string text = error.what();
  // The lines that say where: "  captured at ...", "  in op ..., captured at ...".
  const auto at = std::min(text.find("\n  captured at "), text.find("\n  in op "));
  if (at == std::string::npos) return Error(text, type_of(error));
  return Error(text.substr(0, at), type_of(error), text.substr(at + 3));
}

}  // namespace poptorch
