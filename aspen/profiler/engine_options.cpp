#include "aspen/profiler/engine_options.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "aspen/base/error.h"

namespace aspen {
namespace {

bool is_on(const EngineOptions& options, const char* key) {
  const auto found = options.find(key);
  if (found == options.end()) return false;
  return found->second == "true" || found->second == "True" || found->second == "TRUE" || found->second == "1";
}

}  // namespace

std::optional<std::filesystem::path> profile_directory(const EngineOptions& options) {
  if (!is_on(options, "autoReport.all") && !is_on(options, "autoReport.outputExecutionProfile")) return std::nullopt;
  const auto directory = options.find("autoReport.directory");
  return directory == options.end() ? "." : directory->second;
}

EngineOptions engine_options_of_environment() {
  const char* written = std::getenv("POPLAR_ENGINE_OPTIONS");
  if (written == nullptr || *written == '\0') return {};
  const auto json = nlohmann::json::parse(written, nullptr, false);
  if (!json.is_object()) throw UserError("[POPLAR_ENGINE_OPTIONS] expected a JSON object of engine options.");
  EngineOptions options;
  for (const auto& [key, value] : json.items())
    options[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return options;
}

}  // namespace aspen
