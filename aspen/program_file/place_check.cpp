#include "aspen/program_file/place_check.h"

#include <algorithm>
#include <limits>

namespace aspen {
namespace {

constexpr std::size_t kMaxRank = 64;

}  // namespace

void check_index(std::size_t index, std::size_t count, const char* what) {
  expect(index < count, "there is no {} {}", what, index);
}

void check_type(const TensorType& type) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  expect(type.shape.size() <= kMaxRank, "a tensor has {} axes", type.shape.size());
  auto size = static_cast<std::int64_t>(size_of(type.dtype));
  for (std::int64_t extent : type.shape) {
    expect(extent >= 0 && size <= kMost / std::max<std::int64_t>(extent, 1), "a tensor has shape {}",
           to_string(type.shape));
    size *= std::max<std::int64_t>(extent, 1);
  }
}

bool overlap(const BufferRef& a, const BufferRef& b) {
  return !a.absent && !b.absent && a.arena == b.arena && a.owner == b.owner && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

bool is_same_place(const BufferRef& a, const BufferRef& b) {
  return a.arena == b.arena && a.owner == b.owner && a.offset == b.offset && a.bytes == b.bytes;
}

std::size_t PlaceCheck::arena_bytes(const BufferRef& place) const {
  switch (place.arena) {
    case Arena::kSlots:
    case Arena::kHostSlots: check_index(place.owner, program_.lanes.size(), "lane"); break;
    case Arena::kInputs: check_index(place.owner, program_.inputs.size(), "input"); break;
    case Arena::kOutputs: check_index(place.owner, program_.outputs.size(), "output"); break;
    default: check_index(place.owner, program_.devices.size(), "device");
  }
  switch (place.arena) {
    case Arena::kVariables: return program_.devices[place.owner].variable_bytes;
    case Arena::kConstants: return program_.devices[place.owner].constant_bytes;
    case Arena::kScratch: return program_.devices[place.owner].scratch_bytes;
    case Arena::kHostVariables: return program_.devices[place.owner].host_variable_bytes;
    case Arena::kPacked: return 0;  // not before all has been checked
    case Arena::kSlots: return program_.lanes[place.owner].slot_bytes;
    case Arena::kHostSlots: return program_.lanes[place.owner].host_slot_bytes;
    case Arena::kInputs: return program_.inputs[place.owner].type.bytes();
    case Arena::kOutputs: break;
  }
  return program_.outputs[place.owner].type.bytes();
}

void PlaceCheck::check(const BufferRef& place) const {
  if (place.absent) {
    expect(place.bytes == 0, "a buffer of {} bytes is absent", place.bytes);
    return;
  }
  const std::size_t room = arena_bytes(place);
  expect(place.bytes <= room && place.offset <= room - place.bytes, "a buffer of {} bytes lies outside of its arena",
         place.bytes);
  expect(place.offset % kBufferAlignment == 0, "a buffer begins at byte {}", place.offset);
}

void PlaceCheck::check(const BufferRef& place, std::size_t bytes) const {
  expect(!place.absent, "a buffer is absent that must be there");
  expect(place.bytes == bytes, "a buffer has {} bytes for a tensor of {}", place.bytes, bytes);
  check(place);
}

void PlaceCheck::check_read(const BufferRef& place, std::size_t bytes, std::size_t device) const {
  check(place, bytes);
  const bool is_of_device = place.arena == Arena::kScratch || place.arena == Arena::kConstants;
  expect(!is_of_device || place.owner == device, "device {} works in the memory of device {}", device, place.owner);
}

void PlaceCheck::check_written(const BufferRef& place, std::size_t bytes, std::size_t device) const {
  check_read(place, bytes, device);
  expect(place.arena != Arena::kConstants, "a constant is written to");
  expect(place.arena != Arena::kInputs, "an input is written to");
}

void PlaceCheck::check_elements(const BufferRef& place, DType type) const {
  if (place.absent || !is_of_call(place.arena)) return;
  const auto& tensors = place.arena == Arena::kInputs ? program_.inputs : program_.outputs;
  const DType own = tensors[place.owner].type.dtype;
  expect(size_of(type) <= size_of(own), "elements of type {} lie in a tensor of type {}", name_of(type), name_of(own));
}

}  // namespace aspen
