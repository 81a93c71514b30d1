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

std::string spelled(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Byte: return spelled("torch::kUInt8", "torch.uint8");
    case c10::ScalarType::Char: return spelled("torch::kInt8", "torch.int8");
    case c10::ScalarType::Short: return spelled("torch::kInt16", "torch.int16");
    case c10::ScalarType::Int: return spelled("torch::kInt32", "torch.int32");
    case c10::ScalarType::Long: return spelled("torch::kInt64", "torch.int64");
    case c10::ScalarType::Half: return spelled("torch::kFloat16", "torch.float16");
    case c10::ScalarType::Float: return spelled("torch::kFloat32", "torch.float32");
    case c10::ScalarType::Double: return spelled("torch::kFloat64", "torch.float64");
    case c10::ScalarType::ComplexHalf: return spelled("torch::kComplexHalf", "torch.complex32");
    case c10::ScalarType::ComplexFloat: return spelled("torch::kComplexFloat", "torch.complex64");
    case c10::ScalarType::ComplexDouble: return spelled("torch::kComplexDouble", "torch.complex128");
    case c10::ScalarType::Bool: return spelled("torch::kBool", "torch.bool");
    case c10::ScalarType::BFloat16: return spelled("torch::kBFloat16", "torch.bfloat16");
    default: return c10::toString(type);
  }
}

std::string spelled(bool value) {
  if (current_language == Language::kCpp) return value ? "true" : "false";
  return value ? "True" : "False";
}

std::string spelled_null() { return current_language == Language::kCpp ? "nullptr" : "None"; }

}  // namespace poptorch
