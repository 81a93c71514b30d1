// What a user asks of the compiler who leaves the cut of a model into pipeline stages to it. Part of CompileOptions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace aspen {

struct PartCosts;

// Cuts a model into pipeline stages where that is best; see placement/cut_stages.h.
struct StageCut {
  struct Part {
    std::string module;          // with whose first call it begins; "": no stage may begin here
    std::int64_t last_call = 0;  // the part in which that is called for the last time
  };
  std::int64_t devices = 0;  // stages, each on a device of its own; 0: ops are placed already
  std::vector<Part> parts;
  bool measures = true;                                // times kernels on this machine; false: a guess from shapes
  std::function<void(const PartCosts&)> observe = {};  // is told what the parts cost
};

}  // namespace aspen
