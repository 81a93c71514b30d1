// DeviceLease: a device that an executor has asked for by its id. While the lease lives its IPUs are nobody else's, in
// this process or another; a process that ends lets go of its own. A fork of the process has none of its leases.
#pragma once

#include <sys/types.h>

#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>

#include "aspen/ipus/ipu_ids.h"

namespace aspen {

class DeviceLease {
 public:
  // As soon as nobody else has any IPU of the device, which may take the seconds that POPTORCH_WAIT_FOR_IPU says;
  // without it, or if it is 0, at once. Meanwhile should_stop is asked now and then; true: Interrupted. A UserError
  // if others do not let go. nullptr: there is no such device.
  static std::unique_ptr<DeviceLease> take(std::int64_t device, const std::function<bool()>& should_stop);
  ~DeviceLease();
  DeviceLease(const DeviceLease&) = delete;
  DeviceLease& operator=(const DeviceLease&) = delete;

 private:
  DeviceLease(std::int64_t first_ipu, std::int64_t ipus);

  std::int64_t first_ipu_, ipus_;
  pid_t process_;
};

// The IPUs that leases of any process hold now. Where that cannot be read, none.
std::bitset<kMaxIpus> leased_ipus();

}  // namespace aspen
