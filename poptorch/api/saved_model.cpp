#include "poptorch/api/saved_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "aspen/base/log.h"
#include "poptorch/error.h"

namespace poptorch {

namespace fs = std::filesystem;

namespace {

// An error of the core about a file, as one of the function that was called.
Error error_of(const char* who, const aspen::Error& error) {
  std::string text = error.what();
  for (const std::string prefix : {"[program file] ", "[file] "}) {
    if (text.starts_with(prefix)) text.erase(0, prefix.size());
  }
  return Error(fmt::format("[{}] {}", who, text));
}

}  // namespace

std::string export_path(const std::string& path, const char* who) {
  if (path.empty()) throw Error(fmt::format("[{}] the name of the file is empty.", who));
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const std::string file = (fs::path(path) / "model.poptorch").string();
    aspen::log::warn("[{}] \"{}\" is a directory; the model is written to \"{}\"", who, path, file);
    return file;
  }
  const fs::path folder = fs::absolute(path).parent_path();
  fs::create_directories(folder, error);
  if (error) {
    throw Error(fmt::format("[{}] the folder \"{}\" cannot be made: {}. Nothing was written; choose another place.",
                            who, folder.string(), error.message()));
  }
  return path;
}

void write_model_file(const aspen::Sections& file, const std::string& path, const char* who) {
  try {
    file.write(path);
  } catch (const aspen::Error& error) {  // a disk that is full is no device that failed
    throw error_of(who, error);
  }
}

aspen::Sections read_model_file(const std::string& path, const char* who) {
  try {
    return aspen::Sections::read(path);
  } catch (const aspen::Error& error) {
    throw error_of(who, error);
  }
}

void refuse_model_file(const std::string& path, const char* who, const std::string& why) {
  throw Error(fmt::format("[{}] \"{}\" cannot be used: {}.", who, path, why));
}

}  // namespace poptorch
