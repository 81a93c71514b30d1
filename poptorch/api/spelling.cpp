#include "poptorch/api/spelling.h"

#include <atomic>

namespace poptorch {
namespace {

std::atomic<Language> current_language = Language::kCpp;

}  // namespace

void set_language(Language language) { current_language = language; }

Language language() { return current_language; }

std::string spelled(std::string_view name) {
  std::string text(name);
  if (current_language == Language::kCpp) return text;
  for (auto at = text.find("::"); at != std::string::npos; at = text.find("::", at)) text.replace(at, 2, ".");
  return text;
}

std::string spelled(std::string_view cpp, std::string_view python) {
  return std::string(current_language == Language::kCpp ? cpp : python);
}

std::string spelled(bool value) {
  if (current_language == Language::kCpp) return value ? "true" : "false";
  return value ? "True" : "False";
}

std::string spelled_null() { return current_language == Language::kCpp ? "nullptr" : "None"; }

}  // namespace poptorch
