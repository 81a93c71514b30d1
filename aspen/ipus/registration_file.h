// The file of one attached executor, as registration.h writes it and attachments.h reads it: a header and a cell for
// each of its IPUs. Its name is <pid>-<start of the process>-<number>, which nobody uses twice. All of it is written
// before the file gets that name; from then on only busy times change.
//
// The process holds a lock on its file. Such locks end with the process, however it ends, and with exec, and a fork
// does not have them: a file without one is that of nobody.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "aspen/ipus/busy_clock.h"

namespace aspen {

struct alignas(64) RegistrationHeader {
  static constexpr std::array<char, 8> kMagic = {'a', 's', 'p', 'e', 'n', 'i', 'p', 'u'};
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::uint32_t kMaxCells = 4096;

  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t num_cells = 0;
  std::int64_t pid = 0;
  std::int64_t device = -1;    // the id that the program asked for; -1: it did not
  std::int64_t attached = 0;   // when, in nanoseconds of the steady clock
  std::array<char, 64> model;  // its name; of texts, what does not fit is cut off, and what is left over is zeros
  std::array<char, 512> command;
};

// On a cache line of its own: workers on several threads write them.
struct alignas(64) RegistrationCell {
  std::int64_t ipu = 0;
  std::uint64_t memory = 0, host_memory = 0;  // bytes, as planned
  BusyCell busy = 0;
};

static_assert(BusyCell::is_always_lock_free, "processes share it");
static_assert(sizeof(RegistrationHeader) % alignof(RegistrationCell) == 0);

}  // namespace aspen
