#include "poptorch/error.h"

#include <utility>

namespace poptorch {

Error::Error(const std::string& message, std::string type, std::string location)
    : std::runtime_error(location.empty() ? message : message + "\n  " + location), message_(message),
      type_(std::move(type)), location_(std::move(location)) {}

RecoverableError::RecoverableError(const std::string& message, std::string type, std::string location,
                                   std::string recovery_action)
    : Error(message, std::move(type), std::move(location)), recovery_action_(std::move(recovery_action)) {}

// Here, so that every program and library sees one type of each and can catch it.
Error::~Error() = default;
RecoverableError::~RecoverableError() = default;
UnrecoverableError::~UnrecoverableError() = default;
ConfigFileError::~ConfigFileError() = default;
ArgumentError::~ArgumentError() = default;
ValueError::~ValueError() = default;

}  // namespace poptorch
