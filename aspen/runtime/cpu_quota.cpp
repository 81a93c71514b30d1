#include "aspen/runtime/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace aspen {
namespace {

namespace fs = std::filesystem;

// A line of /proc/self/cgroup: "0::/path" in version 2, "4:cpu,cpuacct:/path" in version 1.
struct Membership {
  std::string controllers;
  fs::path path;  // relative to where the hierarchy is mounted
};

std::optional<Membership> parse(const std::string& line) {
  std::size_t first = line.find(':'), second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  return Membership{line.substr(first + 1, second - first - 1), fs::path(line.substr(second + 1)).relative_path()};
}

bool has_cpu(const std::string& controllers) { return ("," + controllers + ",").find(",cpu,") != std::string::npos; }

std::optional<double> ratio(double quota, double period) {
  if (quota <= 0 || period <= 0) return std::nullopt;  // -1: no limit
  return quota / period;
}

std::optional<double> quota_of_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return std::nullopt;
  return ratio(std::strtod(quota.c_str(), nullptr), period);
}

std::optional<double> quota_of_v1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  return ratio(quota, period);
}

void limit(std::optional<double>& least, std::optional<double> found) {
  if (found) least = least ? std::min(*least, *found) : *found;
}

// From the group up to the mount. Inside a container the path may be one of the host, of which only the mount itself is
// there to see; it then is the container's group.
void limit_by(std::optional<double>& least, const fs::path& mount, const fs::path& group,
              std::optional<double> (*quota_of)(const fs::path&)) {
  for (fs::path path = group; !path.empty(); path = path.parent_path()) limit(least, quota_of(mount / path));
  limit(least, quota_of(mount));
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> least;
  fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    std::optional<Membership> member = parse(line);
    if (!member) continue;
    if (member->controllers.empty()) {
      limit_by(least, mounts, member->path, quota_of_v2);
      limit_by(least, mounts / "unified", member->path, quota_of_v2);  // beside version 1
    } else if (has_cpu(member->controllers)) {
      limit_by(least, mounts / "cpu", member->path, quota_of_v1);
      limit_by(least, mounts / member->controllers, member->path, quota_of_v1);  // "cpu,cpuacct"
    }
  }
  return least;
}

}  // namespace aspen
