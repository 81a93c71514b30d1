// How many virtual IPUs a model takes, and the rules on that number. Both APIs ask before they compile.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace poptorch {

struct IpuRequest {
  std::set<std::int64_t> used;  // by the blocks of the model
  std::int64_t replicas = 1;
  bool rounds_up = false;                   // to a power of two, with a warning; else other numbers are an error
  bool is_hardware = true;                  // false: a model of the hardware, which takes any number
  std::optional<std::int64_t> device = {};  // that the program asks for
};

// IPUs that the model occupies. A UserError if the rules do not allow it.
std::int64_t required_ipus(const IpuRequest& request);

// POPTORCH_IPU_MODEL or POPTORCH_SMALL_IPU_MODEL is set: the virtual IPUs stand for a model of the hardware.
bool environment_asks_for_ipu_model();
// POPTORCH_IPU_MODEL_VERSION: ipu1, ipu2 (the default) or ipu21; a UserError for any other.
std::string ipu_model_version();

}  // namespace poptorch
