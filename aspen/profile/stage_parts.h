// Stages taken apart where they could begin or end: with the first call of a module. What each part takes was measured,
// so the times of other cuts can be told (stage_advice.cpp).
#pragma once

#include <string>
#include <vector>

#include "aspen/profile/profile.h"

namespace aspen::profile {

// Ops from the first call of a module to that of another; nanoseconds of one micro-batch.
struct StagePart {
  std::string module;     // that it begins with, "encoder/layers/3"; "": none, so no stage can begin here
  std::size_t stage = 0;  // row of Analysis::stages
  double forward = 0, backward = 0;
  double recompute = 0;  // in all stages but the last; in the last one, what it would be elsewhere
  double time(bool is_last_stage) const { return forward + backward + (is_last_stage ? 0 : recompute); }
};

// In the order of the forward pass. Empty if stages and devices do not belong together one by one, or if ops were not
// timed.
std::vector<StagePart> parts_of_stages(const Profile& profile);

// The parts with which all stages but the first begin, so that the longest of `num_stages` is about as short as it can
// be. Between outer modules less has to be sent than in the middle of one, which is not counted: of cuts that are close
// it is one between these. Empty if there are too few parts.
std::vector<std::size_t> best_cut(const std::vector<StagePart>& parts, std::size_t num_stages);

// The time of each stage with such a cut.
std::vector<double> times_of_cut(const std::vector<StagePart>& parts, const std::vector<std::size_t>& cut);

}  // namespace aspen::profile
