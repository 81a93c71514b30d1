// The virtual IPUs of the machine and the ids of its devices. A device is one IPU or a group of them: 0 .. 63 are
// single IPUs, then come pairs, groups of four and so on; the last one, 126, has all.
#pragma once

#include <cstdint>

namespace aspen {

inline constexpr std::int64_t kMaxIpus = 64;
inline constexpr std::int64_t kMaxDevices = 2 * kMaxIpus - 1;

// IPUs of a device, and the first of them. 0: no such device.
std::int64_t ipus_of_device(std::int64_t device);
std::int64_t first_ipu_of_device(std::int64_t device);

}  // namespace aspen
