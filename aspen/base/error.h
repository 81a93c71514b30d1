// The three kinds of error: the user's program is wrong, the device cannot, or we are wrong.
// Messages name the thing, the values, the rule and the way out.
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace aspen {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text) : std::runtime_error(text) {}
};

// Something to fix in the user's model, options or data.
class UserError : public Error {
 public:
  template <class... Args>
  explicit UserError(fmt::format_string<Args...> format, Args&&... args)
      : Error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// Memory, driver or network gave out.
class DeviceError : public Error {
 public:
  template <class... Args>
  explicit DeviceError(fmt::format_string<Args...> format, Args&&... args)
      : Error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// The running call was asked to stop (Ctrl-C).
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

template <class... Args>
struct LocatedFormat {
  fmt::format_string<Args...> format;
  std::source_location location;
  template <class Text>
  consteval LocatedFormat(const Text& text, std::source_location where = std::source_location::current())
      : format(text), location(where) {}
};

std::string internal_text(const std::string& what, const std::source_location& where);

// A bug of ours: prints where it was noticed.
class InternalError : public Error {
 public:
  template <class... Args>
  explicit InternalError(LocatedFormat<std::type_identity_t<Args>...> format, Args&&... args)
      : Error(internal_text(fmt::format(format.format, std::forward<Args>(args)...), format.location)) {}
};

// Adds "\n  <line>" to an error's text and rethrows it as the same type; called inside a catch block.
[[noreturn]] void rethrow_with_context(std::string_view line);

// The candidates closest to `word` by edit distance, for "did you mean".
std::string near_matches(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace aspen
