// What the C++ API throws.
#pragma once

#include <stdexcept>
#include <string>

namespace poptorch {

// A mistake in the model, the options or the data, or a failure of the engine; the text says which and the way out.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text) : std::runtime_error(text) {}
};

}  // namespace poptorch
