#include "aspen/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "aspen/base/error.h"
#include "aspen/base/log_directory.h"
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

class Logger {
 public:
  Level level = Level::kWarn;

  Logger() {
    std::string wanted = environment("POPTORCH_LOG_LEVEL", "WARN");
    try {
      level = level_from_name(wanted);
    } catch (const UserError& e) {  // a typo in the environment must not keep a program from starting
      write(spdlog::level::warn, fmt::format("POPTORCH_LOG_LEVEL: {}", e.what()));
    }
  }

  void write(spdlog::level::level_enum level, std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (out_ == nullptr) out_ = open();
    out_->log(level, spdlog::string_view_t(text.data(), text.size()));
  }

  void set_directory(const std::string& directory) {
    const std::lock_guard lock(mutex_);
    if (directory == directory_) return;
    directory_ = directory;
    if (is_file_) out_.reset();
  }

 private:
  // A file is made when there is something to write: by then it is known where.
  std::unique_ptr<spdlog::logger> open() const {
    std::string destination = destination_;
    if (is_file_) {
      const auto path = std::filesystem::path(directory_) / destination_;  // an absolute one stays as it is
      if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
      destination = path.string();
    }
    auto out = std::make_unique<spdlog::logger>("aspen", make_sink(destination));
    out->set_level(spdlog::level::trace);  // `level` decides
    out->set_pattern("[%T.%e] [%n] [%l] %v");
    out->flush_on(spdlog::level::warn);
    return out;
  }

  const std::string destination_ = environment("POPTORCH_LOG_DEST", "stderr");
  const bool is_file_ = destination_ != "stderr" && destination_ != "stdout";
  std::mutex mutex_;
  std::string directory_ = ".";
  std::unique_ptr<spdlog::logger> out_;
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
  logger().write(kRows[static_cast<std::size_t>(level)].spdlog_level, text);
}

void set_directory(const std::string& directory) { logger().set_directory(directory); }

}  // namespace aspen::log
