// The file around a program: named sections, each with a checksum, in one file that is written whole or not at all
// (docs/program-format.md). What a section holds is the business of who wrote it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "aspen/program_file/byte_stream.h"

namespace aspen {

// Any change of a few neighbouring bytes changes it for certain, any other with all but a chance of 2^-64.
std::uint64_t checksum(std::span<const std::byte> bytes);

class Sections {
 public:
  // A name has 1 to 16 characters.
  void set(const std::string& name, std::vector<std::byte> bytes);
  bool has(const std::string& name) const { return sections_.contains(name); }
  // Missing: FileError. The bytes live as long as this object or a copy of it.
  std::span<const std::byte> get(const std::string& name) const;
  std::vector<std::string> names() const;

  std::vector<std::byte> encode() const;
  // Of bytes that `encode` made and nobody has changed; anything else is a FileError.
  static Sections decode(std::vector<std::byte> bytes);

  // Errors name the file; see base/whole_file.h.
  void write(const std::filesystem::path& file) const;
  static Sections read(const std::filesystem::path& file);

 private:
  // What was read stays in the one piece it was read in.
  struct Section {
    std::shared_ptr<const std::vector<std::byte>> owner;
    std::span<const std::byte> bytes;
  };
  std::vector<std::byte> head() const;
  std::vector<std::span<const std::byte>> pieces(std::span<const std::byte> head) const;

  std::map<std::string, Section> sections_;
};

}  // namespace aspen
