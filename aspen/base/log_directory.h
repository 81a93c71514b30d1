// Where the file of the log is; the option logDir.
#pragma once

#include <string>

namespace aspen::log {

// From now on the log goes to the file in this directory that POPTORCH_LOG_DEST names; the directory is created when
// there is something to write. No effect if that is an absolute path, stderr or stdout. At first it is the working
// directory.
void set_directory(const std::string& directory);

}  // namespace aspen::log
