#include "aspen/profile/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "aspen/profile/text_format.h"

namespace aspen::profile {
namespace {

// Below these, advice would be noise.
constexpr double kLeastGain = 0.03, kLeastShare = 0.05;

void sort_by_gain(std::vector<Advice>& list) {
  std::stable_sort(list.begin(), list.end(), [](const Advice& a, const Advice& b) { return a.gain > b.gain; });
}

}  // namespace

std::vector<Advice> advise(const Profile& profile) {
  std::vector<Advice> by_gain;
  for (const auto& part : {advise_on_stages, advise_on_bubble, advise_on_host, advise_on_loading}) {
    for (Advice& advice : part(profile)) by_gain.push_back(std::move(advice));
  }
  sort_by_gain(by_gain);
  std::vector<Advice> result = advise_on_memory(profile);
  std::move(by_gain.begin(), by_gain.end(), std::back_inserter(result));
  return result;
}

// With G micro-batches and S even stages, a filling of the pipeline takes as long as G + S - 1 of them: devices wait
// for (S - 1) / (G + S - 1) of the time, before their first one, between forward and backward passes, and after their
// last.
std::vector<Advice> advise_on_bubble(const Profile& profile) {
  const Run& run = profile.run;
  const auto stages = static_cast<double>(profile.analysis.stages.size());
  if (run.execution != "pipelined" || stages < 2) return {};
  const auto share = [&](std::int64_t count) { return (stages - 1) / (static_cast<double>(count) + stages - 1); };
  const std::int64_t rounds =
      std::max<std::int64_t>(run.training ? run.gradient_accumulation : run.device_iterations, 1);
  // What is more than that has other reasons, such as uneven stages.
  const double waiting = std::min(profile.analysis.ramp + profile.analysis.bubble, share(rounds));
  if (waiting < kLeastShare) return {};
  std::int64_t wanted = rounds;
  while (share(wanted) > kLeastShare && wanted < 4 * rounds) wanted *= 2;
  const double left = waiting * share(wanted) / share(rounds);
  const double gain = 1 - (1 - waiting) / (1 - left);
  if (gain < kLeastGain) return {};
  Advice advice{.topic = "pipeline", .confidence = Confidence::kHigh, .gain = gain};
  const char* name = run.training ? "gradient accumulation" : "device iterations";
  advice.title = fmt::format("Raise {} from {} to {}", name, rounds, wanted);
  advice.why = fmt::format(
      "The pipeline of {:.0f} stages fills and empties once for every {} micro-batches: devices wait about {} of the "
      "time "
      "for that. With {} micro-batches it would be {}.",
      stages, rounds, percent_text(waiting), wanted, percent_text(left));
  advice.how = run.training ? fmt::format(
                                  "options.Training.gradientAccumulation({}). A weight update then sees {} times "
                                  "the samples: the learning rate may want to follow.",
                                  wanted, wanted / rounds)
                            : fmt::format(
                                  "options.deviceIterations({}). A call then takes and gives so many "
                                  "micro-batches.",
                                  wanted);
  return {advice};
}

std::vector<Advice> advise_on_host(const Profile& profile) {
  struct Calls {
    double duration = 0;
    std::int64_t ops = 0;
    const Op* example = nullptr;
  };
  std::map<std::string, Calls> by_name;
  double total = 0;
  for (const Op& op : profile.ops) {
    total += static_cast<double>(op.duration);
    if (!op.calls_host) continue;
    Calls& calls = by_name[op.name + " in " + (op.module.empty() ? "the model" : op.module)];
    calls.duration += static_cast<double>(op.duration);
    ++calls.ops;
    calls.example = &op;
  }
  std::vector<Advice> result;
  for (const auto& [name, calls] : by_name) {
    const double share = total > 0 ? calls.duration / total : 0;
    if (share < 0.01) continue;
    Advice advice{.topic = "host", .confidence = Confidence::kMedium, .gain = share};
    advice.title = fmt::format("Keep {} on the device", name);
    advice.why =
        fmt::format("It runs on the host in the middle of the program and takes {}, {} of the time of all ops: {}.",
                    time_text(calls.duration), percent_text(share), calls.example->text);
    advice.how = fmt::format(
        "Write it with operators that docs/ops.md lists{}, or give it a device version as a custom operator "
        "(poptorch.custom_op).",
        calls.example->source.empty() ? "" : fmt::format(" (it is called at {})", calls.example->source));
    result.push_back(advice);
  }
  sort_by_gain(result);
  return result;
}

std::vector<Advice> advise_on_loading(const Profile& profile) {
  const Analysis& analysis = profile.analysis;
  std::vector<Advice> result;
  if (analysis.loading_share >= kLeastShare) {
    Advice advice{.topic = "data", .confidence = Confidence::kHigh, .gain = analysis.loading_share};
    advice.title = "Load data faster: devices wait for it";
    advice.why = fmt::format(
        "Calls wait for the data loader {} of the time; without that, throughput would be about {} "
        "samples/s rather than {}.",
        percent_text(analysis.loading_share),
        number_text(analysis.samples_per_second / (1 - std::min(analysis.loading_share, 0.99))),
        number_text(analysis.samples_per_second));
    advice.how =
        "poptorch.DataLoader(..., num_workers=N, mode=poptorch.DataLoaderMode.AsyncRebatched) fetches ahead in N "
        "processes; raise N while this share falls.";
    result.push_back(advice);
  }
  const double between = analysis.host_share - analysis.loading_share;
  if (between >= kLeastShare && analysis.calls > 1) {
    const std::int64_t wanted = 2 * std::max<std::int64_t>(profile.run.device_iterations, 1);
    Advice advice{.topic = "host", .confidence = Confidence::kMedium, .gain = between / 2};
    advice.title = fmt::format("Raise device iterations from {} to {}", profile.run.device_iterations, wanted);
    advice.why = fmt::format(
        "Between calls the program itself works for {} of the time, and devices have nothing to do. "
        "Twice the work a call halves that.",
        percent_text(between));
    advice.how = fmt::format("options.deviceIterations({}), with as many samples more for every call.", wanted);
    result.push_back(advice);
  }
  return result;
}

}  // namespace aspen::profile
