// Which line of the user's program is running: frames of torch and of this package are skipped.
#pragma once

#include <string>
#include <vector>

namespace poptorch {

std::string user_source_line();  // "model.py:42, Net.forward"; "" when only library frames are running
// Substrings of file names to skip; replaces the torch and poptorch installations skipped by default.
void set_source_excludes(const std::vector<std::string>& excludes);

}  // namespace poptorch
