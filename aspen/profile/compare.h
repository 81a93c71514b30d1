// Two runs side by side: what got slower, what grew. Shown by the page and as text.
#pragma once

#include <string>
#include <vector>

#include "aspen/profile/profile.h"

namespace aspen::profile {

// A number of the summary. unit: "ns", "bytes", "share", "flop/s", "samples/s".
struct NumberChange {
  std::string name, unit;
  double before = 0, after = 0;
  bool more_is_better = false;
};

// Ops of the same name, module and pass; nanoseconds of one device iteration in all replicas. 0: not there.
struct OpChange {
  std::string name, module, pass;
  double before = 0, after = 0;
};

// Buffers of the same name and kind; bytes of all devices of one replica. 0: not there.
struct BufferChange {
  std::string name, kind;
  double before = 0, after = 0;
};

struct OptionChange {
  std::string name, before, after;  // "": the default
};

struct Comparison {
  std::vector<NumberChange> numbers;
  // What changed, largest difference first; changes too small to matter are left out.
  std::vector<OpChange> ops;
  std::vector<BufferChange> buffers;
  std::vector<OptionChange> options;
};

// Of profiles that are finished.
Comparison compare(const Profile& before, const Profile& after);

std::string to_json(const Comparison& comparison);

}  // namespace aspen::profile
