#include "poptorch/api/footprint.h"

#include "aspen/runtime/footprint.h"

namespace poptorch {

std::vector<MemoryFootprint> memory_footprint(const Session& session) {
  std::vector<MemoryFootprint> result;
  for (const aspen::DeviceFootprint& device : session.compiled("memoryFootprint").footprint()) {
    MemoryFootprint& made = result.emplace_back();
    for (std::size_t i = 0; i < aspen::kNumMemoryKinds; ++i) {
      made.kinds.emplace_back(aspen::name_of(static_cast<aspen::MemoryKind>(i)), device.bytes[i]);
    }
    made.total = device.total();
    made.always_live = device.always_live();
    made.off_device = device.off_device_bytes;
    made.budget = device.budget_bytes;
    for (const aspen::HeldBuffer& buffer : device.buffers) {
      made.buffers.push_back({std::string(aspen::name_of(buffer.kind)), buffer.bytes, buffer.name, buffer.type,
                              aspen::is_always_live(buffer.kind)});
    }
  }
  return result;
}

}  // namespace poptorch
