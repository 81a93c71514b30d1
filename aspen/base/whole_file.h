// Files that are written whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace aspen {

// The pieces, one after the other, as the contents of the file. They are written beside it, flushed, and renamed:
// whoever opens the file meanwhile sees the one before or the new one. An error names the file, the reason and the way
// out, and leaves what was there before.
void write_whole(const std::filesystem::path& file, const std::vector<std::span<const std::byte>>& pieces);

std::vector<std::byte> read_whole(const std::filesystem::path& file);

// Removes what processes that were killed while they wrote left in a folder: files "<name>.<number>.unfinished" that
// nobody holds any more. write_whole() does so too.
void remove_unfinished(const std::filesystem::path& folder);

}  // namespace aspen
