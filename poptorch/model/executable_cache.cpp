#include "poptorch/model/executable_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <vector>

#include "aspen/base/log.h"
#include "aspen/program_file/program_file.h"
#include "aspen/program_file/turn.h"
#include "poptorch/capture/stored_work.h"
#include "poptorch/model/byte_limit.h"

namespace poptorch {
namespace {

namespace fs = std::filesystem;

constexpr const char *kEnding = ".aspen", *kUnfinished = ".unfinished", *kKey = "key";
constexpr const char* kLimitVariable = "ASPEN_CACHE_LIMIT";
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

struct Entry {
  fs::path file;
  fs::file_time_type used;
  std::uint64_t bytes = 0;
};

bool is_program(const fs::path& file) {
  const std::string stem = file.stem().string();
  return file.extension() == kEnding && stem.size() == 32 &&
         stem.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// What processes that were killed have left of the program: nobody else writes it in our turn.
void remove_left_behind(const fs::path& file) {
  std::error_code error;
  const std::string begin = file.filename().string() + ".";
  for (const fs::directory_entry& found : fs::directory_iterator(file.parent_path(), error)) {
    const std::string name = found.path().filename().string();
    const bool is_lock = name == file.filename().string() + kUnfinished;
    if (!is_lock && name.starts_with(begin) && name.ends_with(kUnfinished)) fs::remove(found.path(), error);
  }
}

}  // namespace

std::uint64_t cache_limit() { return bytes_in_environment("cache", kLimitVariable, 16 * kGiB); }

ExecutableCache::ExecutableCache(fs::path directory, std::uint64_t limit)
    : directory_(std::move(directory)), limit_(limit) {}

ExecutableCache::Found ExecutableCache::find_or_make(const ProgramKey& key, const aspen::Backend& backend,
                                                     const Make& make) const {
  if (!key.unknown_function.empty()) {
    aspen::log::debug("[cache] not used: {} is a function of this process alone", key.unknown_function);
    return {make(), false};
  }
  const std::string digest = key.digest(aspen::current_origin(backend));
  const fs::path file = directory_ / (digest + kEnding);
  if (auto program = find(file, digest, backend)) return {std::move(program), true};
  std::error_code error;
  fs::create_directories(directory_, error);
  // The directory holds what is finished: the file of the turn goes with it.
  const aspen::Turn turn(fs::path(file).concat(kUnfinished));
  if (turn.has_waited()) {
    if (auto program = find(file, digest, backend)) return {std::move(program), true};
  }
  if (turn.is_held()) remove_left_behind(file);
  std::unique_ptr<aspen::Program> program = make();
  keep(file, digest, *program, backend);
  return {std::move(program), false};
}

std::unique_ptr<aspen::Program> ExecutableCache::find(const fs::path& file, const std::string& digest,
                                                      const aspen::Backend& backend) const {
  std::error_code error;
  if (!fs::exists(file, error)) {
    aspen::log::debug("[cache] miss: there is no {}", file.string());
    return nullptr;
  }
  try {
    const aspen::Sections sections = aspen::Sections::read(file);
    const auto stored = sections.get(kKey);
    if (!std::ranges::equal(stored, std::as_bytes(std::span(digest)))) {
      throw aspen::FileError("it is the program of another model");
    }
    auto program = aspen::load_program(sections, backend, read_host_function);
    check_host_calls(*program);
    fs::last_write_time(file, fs::file_time_type::clock::now(), error);  // it has been used
    aspen::log::debug("[cache] hit: {}", file.string());
    return program;
  } catch (const std::exception& refused) {
    aspen::log::debug("[cache] miss: {} cannot be used and is replaced: {}", file.string(), refused.what());
    return nullptr;
  }
}

void ExecutableCache::keep(const fs::path& file, const std::string& digest, const aspen::Program& program,
                           const aspen::Backend& backend) const {
  try {
    aspen::Sections sections;
    const auto key = std::as_bytes(std::span(digest));
    sections.set(kKey, {key.begin(), key.end()});
    aspen::store_program(sections, program, backend);
    sections.write(file);
    aspen::log::debug("[cache] kept: {}", file.string());
    make_room(file);
  } catch (const std::exception& refused) {
    aspen::log::warn("the compiled model is not kept in the cache \"{}\", and will be compiled again: {}",
                     directory_.string(), refused.what());
  }
}

void ExecutableCache::make_room(const fs::path& newest) const {
  std::vector<Entry> entries;
  std::uint64_t bytes = 0;
  std::error_code error;  // others may remove the same files
  for (const fs::directory_entry& found : fs::directory_iterator(directory_)) {
    const fs::path& file = found.path();
    const auto used = fs::last_write_time(file, error);
    if (error) continue;
    const std::uint64_t size = fs::file_size(file, error);
    if (error || !is_program(file)) continue;
    bytes += size;
    if (file != newest) entries.push_back({file, used, size});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used != b.used ? a.used < b.used : a.file < b.file; });
  for (const Entry& entry : entries) {
    if (bytes <= limit_) return;
    fs::remove(entry.file, error);
    bytes -= entry.bytes;
    aspen::log::debug("[cache] removed: {}, used longest ago; {} allows {} bytes", entry.file.string(), kLimitVariable,
                      limit_);
  }
}

}  // namespace poptorch
