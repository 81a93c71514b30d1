#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "aspen/profile/advice.h"
#include "aspen/profile/text_format.h"

namespace aspen::profile {
namespace {

// A way to need less memory: what it saves on the device, and how.
struct Way {
  double saves = 0;
  const char* what = "";
  const char* how = "";
  Confidence confidence = Confidence::kMedium;
};

// Bytes of one kind at the peak of a device.
std::map<BufferKind, double> bytes_at_peak(const Profile& profile, const DeviceUse& use) {
  std::map<BufferKind, double> result;
  for (const Buffer& buffer : profile.memory.buffers) {
    if (buffer.on_host || buffer.device != use.device) continue;
    const bool is_alive = buffer.first < 0 || (buffer.first <= use.peak_op && use.peak_op <= buffer.last);
    result[buffer.kind] += static_cast<double>(buffer.bytes * (is_alive ? buffer.copies : buffer.copies - 1));
  }
  return result;
}

std::vector<Way> ways(const Profile& profile, const DeviceUse& use) {
  std::map<BufferKind, double> bytes = bytes_at_peak(profile, use);
  std::vector<Way> result;
  if (bytes[BufferKind::kStash] > 0) {
    // A stage keeps what it receives and computes the rest again: about the largest of its stashes remains.
    double largest = 0;
    for (const Buffer& buffer : profile.memory.buffers) {
      if (buffer.device != use.device || buffer.kind != BufferKind::kStash || buffer.on_host) continue;
      largest = std::max(largest, static_cast<double>(buffer.bytes * buffer.copies));
    }
    const bool is_recomputed =
        std::any_of(profile.ops.begin(), profile.ops.end(), [](const Op& op) { return op.pass == Pass::kRecompute; });
    if (!is_recomputed) {
      result.push_back({.saves = bytes[BufferKind::kStash] - largest,
                        .what = "compute activations again in the backward pass",
                        .how =
                            "options._Popart.set(\"autoRecomputation\", int(popart.RecomputationType.Pipeline)), and "
                            "poptorch.recomputationCheckpoint(x) on what is worth keeping"});
    }
    result.push_back({.saves = bytes[BufferKind::kStash],
                      .what = "keep activations in host memory between forward and backward pass",
                      .how = "options.TensorLocations.setActivationLocation(poptorch.TensorLocationSettings()"
                             ".useOnChipStorage(False))"});
  }
  result.push_back({.saves = bytes[BufferKind::kOptimizerState],
                    .what = "keep the optimiser's state in host memory",
                    .how = "options.TensorLocations.setOptimizerLocation(poptorch.TensorLocationSettings()"
                           ".useOnChipStorage(False))",
                    .confidence = Confidence::kHigh});
  result.push_back({.saves = bytes[BufferKind::kAccumulator],
                    .what = "keep sums of gradients in host memory",
                    .how = "options.TensorLocations.setAccumulatorLocation(poptorch.TensorLocationSettings()"
                           ".useOnChipStorage(False))"});
  result.push_back({.saves = bytes[BufferKind::kWeight],
                    .what = "keep weights in host memory",
                    .how = "options.TensorLocations.setWeightLocation(poptorch.TensorLocationSettings()"
                           ".useOnChipStorage(False))"});
  std::erase_if(result, [](const Way& way) { return way.saves <= 0; });
  return result;
}

}  // namespace

std::vector<Advice> advise_on_memory(const Profile& profile) {
  const auto budget = static_cast<double>(profile.memory.budget);
  std::vector<Advice> result;
  if (budget <= 0 || profile.analysis.memory.empty()) return result;
  const DeviceUse& use = *std::max_element(profile.analysis.memory.begin(), profile.analysis.memory.end(),
                                           [](const DeviceUse& a, const DeviceUse& b) { return a.peak < b.peak; });
  const auto peak = static_cast<double>(use.peak);
  if (peak <= budget) return result;
  std::vector<Way> all = ways(profile, use);
  // The gentlest that is enough, then what saves most.
  std::stable_sort(all.begin(), all.end(), [&](const Way& a, const Way& b) {
    const bool a_is_enough = a.saves >= peak - budget, b_is_enough = b.saves >= peak - budget;
    if (a_is_enough != b_is_enough) return a_is_enough;
    return a_is_enough ? a.saves < b.saves : a.saves > b.saves;
  });
  for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 2); ++i) {
    const Way& way = all[i];
    const double left = peak - way.saves;
    Advice advice{.topic = "memory", .confidence = way.confidence, .saved_bytes = static_cast<std::int64_t>(way.saves)};
    advice.title = fmt::format("Device {} is {} over its budget: {}", use.device, bytes_text(peak - budget), way.what);
    advice.why =
        fmt::format("At its peak, device {} needs {} of {}. This would save about {} and leave {}, {}.", use.device,
                    bytes_text(peak), bytes_text(budget), bytes_text(way.saves), bytes_text(left),
                    left <= budget ? "which fits" : fmt::format("still {} too much", bytes_text(left - budget)));
    advice.how = fmt::format("{}.", way.how);
    result.push_back(advice);
  }
  return result;
}

}  // namespace aspen::profile
