// Registration: an attached executor, for others to see (attachments.h). It lasts as long as the object or the process,
// whichever ends first; a fork of the process is not attached, even if it uses an executor that it was born with.
//
// A program that asked for no device takes none away: it is shown on the first IPUs that are free, and beside others
// where none are. What the system refuses (no folder, no room, no right) costs nothing but to be seen: the log says so,
// once per process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aspen/ipus/busy_clock.h"
#include "aspen/ipus/registration_file.h"
#include "aspen/ipus/shared_file.h"

namespace aspen {

struct RegisteredIpu {
  std::uint64_t memory = 0, host_memory = 0;  // bytes
};

class Registration {
 public:
  // ipus: of the executor, in its order. device: the id that it has a lease of; IPUs of it that it does not use are
  // shown with it.
  Registration(const std::string& model, std::optional<std::int64_t> device, std::vector<RegisteredIpu> ipus);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  // Of an IPU, by its place among those of the executor.
  BusyCell& busy(std::size_t ipu) { return cells_[ipu].busy; }

 private:
  void publish(const std::string& model, std::optional<std::int64_t> device, const std::vector<RegisteredIpu>& ipus);

  std::unique_ptr<SharedFile> file_;              // nullptr: nobody sees it
  std::vector<RegistrationCell> unshared_cells_;  // then
  RegistrationCell* cells_ = nullptr;
};

}  // namespace aspen
