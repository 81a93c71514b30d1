#include "aspen/runtime/program.h"

namespace aspen {
namespace {

std::size_t bytes_of_slots(const Program& program, std::size_t device, std::size_t Lane::*slot_bytes) {
  std::size_t bytes = 0;
  for (const Lane& lane : program.lanes) {
    if (lane.device == device) bytes += static_cast<std::size_t>(lane.depth) * slot_stride(lane.*slot_bytes);
  }
  return bytes;
}

}  // namespace

std::size_t planned_slot_bytes(const Program& program, std::size_t device) {
  return bytes_of_slots(program, device, &Lane::slot_bytes);
}

std::size_t planned_host_slot_bytes(const Program& program, std::size_t device) {
  return bytes_of_slots(program, device, &Lane::host_slot_bytes);
}

std::size_t planned_bytes(const Program& program, std::size_t device) {
  const DevicePlan& plan = program.devices.at(device);
  return plan.variable_bytes + plan.constant_bytes + plan.scratch_bytes + planned_slot_bytes(program, device);
}

std::size_t planned_host_bytes(const Program& program, std::size_t device) {
  return program.devices.at(device).host_variable_bytes + planned_host_slot_bytes(program, device);
}

}  // namespace aspen
