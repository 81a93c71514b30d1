#include <algorithm>
#include <map>

#include "aspen/profile/analyse.h"

namespace aspen::profile {
namespace {

// Bytes by op row, as differences from one row to the next.
using Curve = std::vector<std::int64_t>;

struct DeviceCurve {
  DeviceUse use;
  Curve changes;
};

void add(const Buffer& buffer, DeviceCurve& curve) {
  const bool is_always_live = buffer.first < 0;
  curve.use.always_live += buffer.bytes * (is_always_live ? buffer.copies : buffer.copies - 1);
  if (is_always_live) return;
  curve.changes[static_cast<std::size_t>(buffer.first)] += buffer.bytes;
  curve.changes[static_cast<std::size_t>(std::max(buffer.first, buffer.last)) + 1] -= buffer.bytes;
}

}  // namespace

std::vector<DeviceUse> use_of_memory(const Profile& profile) {
  std::map<std::int64_t, DeviceCurve> devices;
  const auto of = [&](std::int64_t device) -> DeviceCurve& {
    DeviceCurve& curve = devices[device];
    curve.use.device = device;
    curve.changes.resize(profile.ops.size() + 1);
    return curve;
  };
  for (const Worker& worker : profile.workers) of(worker.device);
  for (const Region& region : profile.memory.regions) {
    DeviceUse& use = of(region.device).use;
    (region.on_host ? use.reserved_host : use.reserved) += region.bytes;
  }
  for (const Buffer& buffer : profile.memory.buffers) {
    if (!buffer.on_host) add(buffer, of(buffer.device));
  }
  std::vector<DeviceUse> result;
  for (auto& [device, curve] : devices) {
    std::int64_t bytes = curve.use.always_live;
    curve.use.peak = bytes;
    for (std::size_t row = 0; row < profile.ops.size(); ++row) {
      bytes += curve.changes[row];
      if (profile.tasks[static_cast<std::size_t>(profile.ops[row].task)].device != device) continue;
      if (bytes > curve.use.peak || curve.use.peak_op < 0) curve.use.peak_op = static_cast<std::int64_t>(row);
      curve.use.peak = std::max(curve.use.peak, bytes);
    }
    result.push_back(curve.use);
  }
  return result;
}

}  // namespace aspen::profile
