// Choices among close kernels (compiler/choice_table.h) that processes keep for each other in a folder of the user. One
// file for each version, backend and instruction set (docs/program-format.md). A file that cannot be used is one that
// is not there, and is replaced; a folder that cannot be written means that nothing is timed.
#pragma once

#include <filesystem>
#include <memory>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/choice_table.h"
#include "aspen/program_file/sections.h"

namespace aspen {

void store_choices(Sections& file, const ChoiceTable::Choices& choices, const Backend& backend);
// A FileError, without the name of the file, says why there are none for this backend and version.
ChoiceTable::Choices load_choices(const Sections& file, const Backend& backend);

// ASPEN_CHOICES_DIR, or the folder "aspen" where the system keeps caches of the user (XDG_CACHE_HOME, else ~/.cache).
// Empty: there is none.
std::filesystem::path choice_folder();

// One object for each file and process, which lasts as long as the process.
std::shared_ptr<ChoiceTable> choices_in(const std::filesystem::path& folder, const Backend& backend);

}  // namespace aspen
