#include "aspen/ipus/overview.h"

#include <fmt/format.h>

#include <algorithm>

#include "aspen/ipus/device_lease.h"
#include "aspen/ipus/ipu_ids.h"

namespace aspen {
namespace {

void make_unique(std::vector<std::int64_t>& pids) {
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
}

}  // namespace

std::vector<IpuOverview> overview_of_ipus(const Attachments& before, const Attachments& after) {
  std::vector<IpuOverview> ipus(kMaxIpus);
  for (const Attachment& executor : after.executors) {
    for (const AttachedIpu& attached : executor.ipus) {
      IpuOverview& ipu = ipus[static_cast<std::size_t>(attached.ipu)];
      ipu.pids.push_back(executor.pid);
      ipu.memory += attached.memory;
      ipu.utilisation = std::min(1.0, ipu.utilisation + utilisation(before, after, executor, attached));
    }
  }
  const auto leased = leased_ipus();
  for (std::size_t i = 0; i < ipus.size(); ++i) {
    make_unique(ipus[i].pids);
    ipus[i].is_leased = leased[i];
  }
  return ipus;
}

IpuOverview overview_of_device(const std::vector<IpuOverview>& ipus, std::int64_t device) {
  IpuOverview all;
  const std::int64_t first = first_ipu_of_device(device), count = ipus_of_device(device);
  for (std::int64_t i = first; i < first + count; ++i) {
    const IpuOverview& ipu = ipus[static_cast<std::size_t>(i)];
    all.pids.insert(all.pids.end(), ipu.pids.begin(), ipu.pids.end());
    all.memory += ipu.memory;
    all.utilisation += ipu.utilisation / static_cast<double>(count);
    all.is_leased |= ipu.is_leased;
  }
  make_unique(all.pids);
  return all;
}

std::string ids_text(std::int64_t first, std::int64_t count) {
  return count == 1 ? std::to_string(first) : fmt::format("{}-{}", first, first + count - 1);
}

}  // namespace aspen
