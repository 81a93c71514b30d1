#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <optional>

#include "aspen/profile/advice.h"
#include "aspen/profile/stage_parts.h"
#include "aspen/profile/text_format.h"

namespace aspen::profile {
namespace {

// Below it, advice would be noise.
constexpr double kLeastGain = 0.03;

double time_of(const StageTime& stage) { return static_cast<double>(stage.forward + stage.backward); }

std::vector<double> times_of(const std::vector<StageTime>& stages) {
  std::vector<double> times;
  for (const StageTime& stage : stages) times.push_back(time_of(stage));
  return times;
}

// Of one filling of the pipeline with so many micro-batches: the slowest thread has all of them to do, and the first
// and the last one pass through all stages.
double time_of_filling(const Profile& profile, const std::vector<double>& times) {
  std::map<std::int64_t, double> threads;
  for (const Worker& worker : profile.workers) {
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (profile.analysis.stages[i].device == worker.device) threads[worker.crew] += times[i];
    }
  }
  double longest = *std::max_element(times.begin(), times.end());
  for (const auto& [crew, time] : threads) longest = std::max(longest, time);
  const Run& run = profile.run;
  const auto rounds = static_cast<double>(run.training ? run.gradient_accumulation : run.device_iterations);
  return std::max(rounds - 1, 0.0) * longest + std::accumulate(times.begin(), times.end(), 0.0);
}

// Of the time that one takes now: inference fills the pipeline once a call, training once a weight update.
double gain_of(const Profile& profile, const std::vector<double>& wanted) {
  const double now = time_of_filling(profile, times_of(profile.analysis.stages));
  const auto measured =
      static_cast<double>(profile.run.training ? profile.analysis.iteration : profile.analysis.call_duration);
  return now > 0 ? (now - time_of_filling(profile, wanted)) / std::max(now, measured) : 0;
}

// "model.encoder.layers[3]" of "encoder/layers/3".
std::string written(const std::string& module) {
  std::string text = "model";
  for (std::size_t begin = 0; begin <= module.size();) {
    const std::size_t end = std::min(module.find('/', begin), module.size());
    const std::string name = module.substr(begin, end - begin);
    const auto are_all = [&](auto is) {
      return std::all_of(name.begin(), name.end(), [&](unsigned char letter) { return is(letter); });
    };
    if (are_all([](unsigned char letter) { return std::isdigit(letter) != 0; })) {
      text += "[" + name + "]";
    } else if (are_all([](unsigned char letter) { return std::isalnum(letter) != 0 || letter == '_'; })) {
      text += "." + name;
    } else {
      text += ".get_submodule('" + name + "')";
    }
    begin = end + 1;
  }
  return text;
}

// The parts that the stages begin with now.
std::vector<std::size_t> present_cut(const std::vector<StagePart>& parts) {
  std::vector<std::size_t> cut;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].stage != parts[i - 1].stage) cut.push_back(i);
  }
  return cut;
}

// The neighbour to which most of the longest stage goes: the block between the two begins elsewhere.
std::size_t receiver(const std::vector<std::size_t>& now, const std::vector<std::size_t>& then, std::size_t longest) {
  const std::size_t to_next = longest < now.size() && then[longest] < now[longest] ? now[longest] - then[longest] : 0;
  const std::size_t to_last =
      longest > 0 && then[longest - 1] > now[longest - 1] ? then[longest - 1] - now[longest - 1] : 0;
  return to_last > to_next ? longest - 1 : longest + 1;
}

std::string blocks_text(const Profile& profile, const std::vector<StagePart>& parts,
                        const std::vector<std::size_t>& cut) {
  std::string text;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    text += fmt::format("{}poptorch.BeginBlock({}, ipu_id={})", i > 0 ? "; " : "", written(parts[cut[i]].module),
                        profile.analysis.stages[i + 1].device);
  }
  return text;
}

std::string why_text(const std::vector<double>& times, std::size_t longest, std::size_t other,
                     const std::vector<StageTime>& stages) {
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  return fmt::format(
      "A micro-batch takes {} in stage {} and {} in stage {}; the mean of the {} stages is {}, and the longest sets "
      "the "
      "pace of all.",
      time_text(times[longest]), stages[longest].stage, time_text(times[other]), stages[other].stage, times.size(),
      time_text(mean));
}

// Where stages should begin, from the times of their modules.
std::optional<Advice> advise_to_cut(const Profile& profile) {
  const std::vector<StageTime>& stages = profile.analysis.stages;
  const std::vector<StagePart> parts = parts_of_stages(profile);
  const std::vector<std::size_t> now = present_cut(parts), cut = best_cut(parts, stages.size());
  if (cut.empty() || now.size() != cut.size()) return std::nullopt;
  const std::vector<double> wanted = times_of_cut(parts, cut);
  const double gain = gain_of(profile, wanted);
  if (gain < kLeastGain) return std::nullopt;
  const std::vector<double> times = times_of(stages);
  const auto longest = static_cast<std::size_t>(std::max_element(times.begin(), times.end()) - times.begin());
  const std::size_t other = receiver(now, cut, longest);
  Advice advice{.topic = "pipeline", .confidence = Confidence::kHigh, .gain = gain};
  advice.title = fmt::format("Move work from stage {} to stage {}", stages[longest].stage, stages[other].stage);
  advice.why = fmt::format("{} Cut elsewhere, the longest stage would take {}, and a step about {} less time.",
                           why_text(times, longest, other, stages),
                           time_text(*std::max_element(wanted.begin(), wanted.end())), percent_text(gain));
  advice.how = fmt::format("Begin {} there: {}. model is what was wrapped; blocks it has had are left out.",
                           cut.size() > 1 ? "stages" : "the stage", blocks_text(profile, parts, cut));
  return advice;
}

// What stages of the same length would bring.
double gain_of_even_stages(const Profile& profile) {
  const std::vector<double> times = times_of(profile.analysis.stages);
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  return gain_of(profile, std::vector<double>(times.size(), mean));
}

// Where modules tell nothing: how much should move, and what it would bring if it could be any part.
Advice advise_to_even(const Profile& profile) {
  const std::vector<StageTime>& stages = profile.analysis.stages;
  const std::vector<double> times = times_of(stages);
  const auto longest = static_cast<std::size_t>(std::max_element(times.begin(), times.end()) - times.begin());
  const double gain = gain_of_even_stages(profile);
  const bool has_two = longest > 0 && longest + 1 < times.size();
  const bool is_earlier = has_two ? times[longest - 1] < times[longest + 1] : longest > 0;
  const std::size_t other = is_earlier ? longest - 1 : longest + 1;
  Advice advice{.topic = "pipeline", .confidence = Confidence::kLow, .gain = gain};
  advice.title = fmt::format("Move work from stage {} to stage {}", stages[longest].stage, stages[other].stage);
  advice.why = fmt::format("{} Even stages would take about {} less time.", why_text(times, longest, other, stages),
                           percent_text(gain));
  advice.how = fmt::format(
      "Begin the block of stage {} {} in the model (poptorch.BeginBlock, poptorch.Block), so that about {} of stage {} "
      "changes sides.",
      std::max(stages[longest].stage, stages[other].stage), is_earlier ? "later" : "earlier",
      percent_text((times[longest] - times[other]) / 2 / times[longest]), stages[longest].stage);
  return advice;
}

// Two neighbours that together are no longer than the longest could share a device.
std::optional<Advice> advise_to_merge(const std::vector<StageTime>& stages) {
  const std::vector<double> times = times_of(stages);
  const auto longest = static_cast<std::size_t>(std::max_element(times.begin(), times.end()) - times.begin());
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
    const double both = times[i] + times[i + 1];
    if (both > 1.02 * times[longest] || stages[i].device == stages[i + 1].device) continue;
    Advice advice{.topic = "pipeline", .confidence = Confidence::kMedium};
    advice.title =
        fmt::format("Merge stages {} and {}: one device would do for both", stages[i].stage, stages[i + 1].stage);
    advice.why = fmt::format(
        "Together they take {} a micro-batch, no more than stage {} alone ({}): the pipeline would be as fast with a "
        "device less, and its ramp shorter.",
        time_text(both), stages[longest].stage, time_text(times[longest]));
    advice.how = fmt::format("Leave out the block that begins stage {}.", stages[i + 1].stage);
    return advice;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Advice> advise_on_stages(const Profile& profile) {
  const std::vector<StageTime>& stages = profile.analysis.stages;
  if (profile.run.execution != "pipelined" || stages.size() < 2) return {};
  if (gain_of_even_stages(profile) < kLeastGain) return {};
  std::vector<Advice> result;
  const bool can_be_cut = !parts_of_stages(profile).empty();
  if (auto advice = can_be_cut ? advise_to_cut(profile) : advise_to_even(profile)) {
    result.push_back(*std::move(advice));
  }
  if (auto merge = advise_to_merge(stages)) result.push_back(*std::move(merge));
  return result;
}

}  // namespace aspen::profile
