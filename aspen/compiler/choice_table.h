// What has been decided about requests that several kernels serve about as fast (choose_kernels.h). One table for all
// programs of a process that keep their programs in the same place: equal requests get the same kernel, and with it the
// same bits, on every device and in every placement. Implemented by who keeps it (program_file/choice_file.h).
#pragma once

#include <functional>
#include <map>
#include <string>

namespace aspen {

class ChoiceTable {
 public:
  using Choices = std::map<std::string, std::string>;  // names of candidates by to_string(KernelRequest)
  struct Decided {
    Choices timed;    // kept for other processes
    Choices by_rule;  // for want of time: this process holds to them, as it has used them
  };

  virtual ~ChoiceTable() = default;
  virtual Choices known() = 0;
  // Calls `decide` while no other thread or process is in here, with what is known and whether timed choices can be
  // kept.
  using Decide = std::function<Decided(const Choices& known, bool can_keep)>;
  virtual void extend(const Decide& decide) = 0;
};

}  // namespace aspen
