#include "poptorch/model/ipus.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string_view>

#include "aspen/base/error.h"
#include "aspen/base/log.h"
#include "aspen/ipus/ipu_ids.h"

namespace poptorch {
namespace {

std::int64_t first_device_with(std::int64_t ipus) {
  std::int64_t device = 0;
  while (aspen::ipus_of_device(device) < ipus) ++device;
  return device;
}

void check_device(std::int64_t device, std::int64_t ipus) {
  const std::int64_t available = aspen::ipus_of_device(device);
  if (available == 0) {
    throw aspen::UserError("[useIpuId] there is no device {}; expected 0 <= id <= {}.", device,
                           first_device_with(aspen::kMaxIpus));
  }
  if (available < ipus) {
    throw aspen::UserError("[useIpuId] device {} has {} IPUs, but the model needs {}; device {} has enough.", device,
                           available, ipus, first_device_with(ipus));
  }
  if (available > ipus) aspen::log::warn("device {} has {} IPUs, of which the model uses {}", device, available, ipus);
}

}  // namespace

bool environment_asks_for_ipu_model() {
  for (const char* name : {"POPTORCH_IPU_MODEL", "POPTORCH_SMALL_IPU_MODEL"}) {
    const char* value = std::getenv(name);
    const std::string_view wish = value != nullptr ? value : "";
    if (!wish.empty() && wish != "0") return true;
  }
  return false;
}

std::string ipu_model_version() {
  const char* value = std::getenv("POPTORCH_IPU_MODEL_VERSION");
  if (value == nullptr || *value == '\0') return "ipu2";
  for (const char* known : {"ipu1", "ipu2", "ipu21"}) {
    if (std::string_view(value) == known) return known;
  }
  throw aspen::UserError("[compile] POPTORCH_IPU_MODEL_VERSION is \"{}\"; expected ipu1, ipu2 or ipu21.", value);
}

std::int64_t required_ipus(const IpuRequest& request) {
  std::int64_t per_replica = std::max<std::int64_t>(1, static_cast<std::int64_t>(request.used.size()));
  if (!request.used.empty()) per_replica = std::max(per_replica, *request.used.rbegin() + 1);
  std::int64_t total = per_replica * request.replicas;
  if (total > aspen::kMaxIpus) {
    throw aspen::UserError(
        "[compile] Too many IPUs: {} per replica times {} replicas are {}, and there are {}; use fewer replicas, or "
        "lower ipu ids.",
        per_replica, request.replicas, total, aspen::kMaxIpus);
  }
  const auto rounded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(total)));
  if (request.is_hardware && rounded != total) {
    if (!request.rounds_up) {
      throw aspen::UserError(
          "[compile] the model needs {} IPUs ({} per replica times {} replicas), but IPUs come in powers of two; "
          "options.autoRoundNumIPUs(True) takes {}.",
          total, per_replica, request.replicas, rounded);
    }
    aspen::log::warn("the model needs {} IPUs; {} are taken, because they come in powers of two", total, rounded);
    total = rounded;
  }
  if (request.device) check_device(*request.device, total);
  return total;
}

}  // namespace poptorch
