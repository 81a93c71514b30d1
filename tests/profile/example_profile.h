// Profiles of models that were never run: transformers in a pipeline, with the times a simulation of the pipeline gives
// them. For tests of what is made of profiles; the same arguments make the same profile.
#pragma once

#include <string>

#include "aspen/profile/profile.h"

namespace aspen::testing {

struct ExampleModel {
  std::string name = "training";
  bool training = true;
  std::int64_t devices = 4, replicas = 1;
  std::int64_t layers_per_device = 3;
  std::int64_t gradient_accumulation = 8, device_iterations = 1;
  std::int64_t calls = 12, traced_calls = 1;
  std::int64_t slow_device = 2;  // has so many times the work of the others
  double slow_factor = 1.6;
  double loading = 0;  // part of the time between calls
  std::int64_t budget = 0;
  bool calls_host = false;  // a layer runs on the host
  bool offloads = false;    // the optimiser's state lies in host memory
  std::int64_t devices_per_crew = 1;
  bool complete = true;
};

// Without analysis.
profile::Profile example_profile(const ExampleModel& model);

}  // namespace aspen::testing
