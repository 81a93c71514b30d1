// Where the processes of a machine meet to share its IPUs: a file of locks for those that are asked for by id
// (device_lease.h), a folder for those that are attached (registration.h). The same for all programs and users,
// whatever their TMPDIR, unless ASPEN_IPU_LOCK names another file: its folder then lies beside it.
#pragma once

#include <string>

namespace aspen {

std::string ipu_lock_path();
// In memory where the system has such a place: its files are written while models run.
std::string ipu_folder_path();

}  // namespace aspen
