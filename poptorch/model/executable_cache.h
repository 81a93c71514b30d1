// ExecutableCache: compiled programs that processes keep for each other in a directory, one file each
// (docs/program-format.md). A file that cannot be used, whatever the reason, is a program that is not there: it is
// compiled anew, and the file replaced. A directory that cannot be written costs no more than a warning.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "aspen/backends/api/kernel.h"
#include "aspen/runtime/program.h"
#include "poptorch/model/program_key.h"

namespace poptorch {

class ExecutableCache {
 public:
  // limit: bytes that all programs may have together; those that nobody has used for the longest time go.
  ExecutableCache(std::filesystem::path directory, std::uint64_t limit);

  using Make = std::function<std::unique_ptr<aspen::Program>()>;
  struct Found {
    std::shared_ptr<const aspen::Program> program;
    bool is_hit = false;  // false: it was made
  };
  // Processes that want the same program at the same time take turns: the first makes it.
  Found find_or_make(const ProgramKey& key, const aspen::Backend& backend, const Make& make) const;

 private:
  std::unique_ptr<aspen::Program> find(const std::filesystem::path& file, const std::string& digest,
                                       const aspen::Backend& backend) const;
  void keep(const std::filesystem::path& file, const std::string& digest, const aspen::Program& program,
            const aspen::Backend& backend) const;
  void make_room(const std::filesystem::path& newest) const;

  std::filesystem::path directory_;
  std::uint64_t limit_;
};

// What ASPEN_CACHE_LIMIT says: bytes, or a number with K, M or G behind it. 16G without it.
std::uint64_t cache_limit();

}  // namespace poptorch
