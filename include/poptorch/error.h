// What the C++ API throws. The Python package raises the same errors under the names given here.
#pragma once

#include <stdexcept>
#include <string>

namespace poptorch {

// A mistake in the model, the options or the data, or a failure of the engine; the text says which and the way out.
// what() is the message followed by the location.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string type = "poptorch_cpp_error", std::string location = "");
  ~Error() override;

  const std::string& message() const { return message_; }
  const std::string& type() const { return type_; }          // component and category
  const std::string& location() const { return location_; }  // where in the model; empty if that is not known

 private:
  std::string message_, type_, location_;
};

// A device failed in a way that a reset repairs.
class RecoverableError : public Error {
 public:
  RecoverableError(const std::string& message, std::string type, std::string location,
                   std::string recovery_action = "FULL_RESET");
  ~RecoverableError() override;

  const std::string& recoveryAction() const { return recovery_action_; }  // names the reset

 private:
  std::string recovery_action_;
};

// A device failed and is expected to fail again.
class UnrecoverableError : public Error {
 public:
  using Error::Error;
  ~UnrecoverableError() override;
};

// A file of options is not well formed.
class ConfigFileError : public Error {
 public:
  using Error::Error;
  ~ConfigFileError() override;
};

// An argument of a kind that the call does not take, or a name that it does not know; Python: AssertionError.
class ArgumentError : public Error {
 public:
  using Error::Error;
  ~ArgumentError() override;
};

// An argument of the right kind with a value that is not allowed; Python: ValueError.
class ValueError : public Error {
 public:
  using Error::Error;
  ~ValueError() override;
};

}  // namespace poptorch
