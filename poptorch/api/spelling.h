// Names in messages as the user writes them. Rules are written once, for C++ and Python users alike.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

namespace poptorch {

enum class Language { kCpp, kPython };

// The language of the program that uses the library: C++ unless the Python package has been loaded.
void set_language(Language language);
Language language();

// "OutputMode::EveryN" in C++, "OutputMode.EveryN" in Python.
std::string spelled(std::string_view name);
inline std::string spelled(const char* name) { return spelled(std::string_view(name)); }  // which is no bool
// What has a name of its own in each language.
std::string spelled(std::string_view cpp, std::string_view python);
// "torch::kFloat32" in C++, "torch.float32" in Python.
std::string spelled(c10::ScalarType type);
// "true" in C++, "True" in Python.
std::string spelled(bool value);
// "nullptr" in C++, "None" in Python.
std::string spelled_null();

}  // namespace poptorch
