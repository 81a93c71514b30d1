#include "aspen/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "aspen/base/error.h"
#include "aspen/base/log_repeats.h"

namespace aspen::log {
namespace {

struct Row {
  std::string_view name;
  Level level;
  spdlog::level::level_enum spdlog_level;
};

constexpr std::array<Row, 6> kRows{{
    {"TRACE", Level::kTrace, spdlog::level::trace},
    {"DEBUG", Level::kDebug, spdlog::level::debug},
    {"INFO", Level::kInfo, spdlog::level::info},
    {"WARN", Level::kWarn, spdlog::level::warn},
    {"ERR", Level::kError, spdlog::level::err},
    {"OFF", Level::kOff, spdlog::level::off},
}};

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

Level level_from_name(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.level;
  }
  throw UserError("unknown log level \"{}\"; the levels are TRACE, DEBUG, INFO, WARN, ERR and OFF.", name);
}

spdlog::sink_ptr make_sink(const std::string& destination) {
  if (destination == "stderr") return std::make_shared<spdlog::sinks::stderr_sink_mt>();
  if (destination == "stdout") return std::make_shared<spdlog::sinks::stdout_sink_mt>();
  return std::make_shared<spdlog::sinks::basic_file_sink_mt>(destination);
}

struct Logger {
  Level level = Level::kWarn;
  std::unique_ptr<spdlog::logger> out;

  Logger() {
    std::string wanted = environment("POPTORCH_LOG_LEVEL", "WARN");
    std::string problem;
    try {
      level = level_from_name(wanted);
    } catch (const UserError& e) {
      problem = e.what();  // a typo in the environment must not keep a program from starting
    }
    out = std::make_unique<spdlog::logger>("aspen", make_sink(environment("POPTORCH_LOG_DEST", "stderr")));
    out->set_level(spdlog::level::trace);  // `level` decides
    out->set_pattern("[%T.%e] [%n] [%l] %v");
    out->flush_on(spdlog::level::warn);
    if (!problem.empty()) out->warn("POPTORCH_LOG_LEVEL: {}", problem);
  }
};

Logger& logger() {
  static Logger instance;
  return instance;
}

}  // namespace

Level level() { return logger().level; }

void set_level(Level level) { logger().level = level; }

void set_level(std::string_view name) { set_level(level_from_name(name)); }

void write(Level level, std::string_view text) {
  if (!is_wanted(text)) return;
  logger().out->log(kRows[static_cast<std::size_t>(level)].spdlog_level,
                    spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace aspen::log
