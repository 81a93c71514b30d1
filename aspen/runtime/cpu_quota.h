// How much cpu time the control group of the process allows: what containers and batch systems set.
#pragma once

#include <filesystem>
#include <optional>

namespace aspen {

// In cpus, for example 1.5; nothing if there is no limit. The least of the limits of the process's group and the groups
// around it, of control groups version 2 (cpu.max) and 1 (cpu.cfs_quota_us). What cannot be read limits nothing.
// `root` is where /proc and /sys are.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace aspen
