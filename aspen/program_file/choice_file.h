// Choices among close kernels (compiler/choice_table.h) that processes keep for each other in a folder: that of the
// executable cache. One file for each version, backend and instruction set (docs/program-format.md). A file that cannot
// be used is one that is not there, and is replaced; a folder that cannot be written means that nothing is timed.
#pragma once

#include <filesystem>
#include <memory>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/choice_table.h"

namespace aspen {

// One object for each file and process, which lasts as long as the process.
std::shared_ptr<ChoiceTable> choices_in(const std::filesystem::path& folder, const Backend& backend);

}  // namespace aspen
