// Which engine options of PopTorch ask for a profile, and where it goes.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace aspen {

using EngineOptions = std::map<std::string, std::string>;

// autoReport.all or autoReport.outputExecutionProfile ask for one, in autoReport.directory or, without it, where the
// process is; each model has a folder of its own there. Nothing: no profile is asked for.
std::optional<std::filesystem::path> profile_directory(const EngineOptions& options);

// What POPLAR_ENGINE_OPTIONS says. A UserError unless it is a JSON object, or empty.
EngineOptions engine_options_of_environment();

}  // namespace aspen
