#include "aspen/ipus/ipu_ids.h"

namespace aspen {

std::int64_t ipus_of_device(std::int64_t device) {
  std::int64_t first = 0;
  for (std::int64_t ipus = 1; ipus <= kMaxIpus; ipus *= 2) {
    const std::int64_t devices = kMaxIpus / ipus;
    if (device >= first && device < first + devices) return ipus;
    first += devices;
  }
  return 0;
}

std::int64_t first_ipu_of_device(std::int64_t device) {
  std::int64_t first = 0;  // device of so many IPUs
  const std::int64_t own = ipus_of_device(device);
  for (std::int64_t ipus = 1; ipus < own; ipus *= 2) first += kMaxIpus / ipus;
  return (device - first) * own;
}

}  // namespace aspen
