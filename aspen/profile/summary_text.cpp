#include "aspen/profile/summary_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "aspen/profile/enum_names.h"
#include "aspen/profile/text_format.h"

namespace aspen::profile {
namespace {

constexpr std::size_t kMostRows = 10;

template <class... Args>
void line(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
  text += '\n';
}

// Long names are cut at their begin: what tells them apart is at the end.
std::string cut(const std::string& name, std::size_t width) {
  return name.size() <= width ? name : "..." + name.substr(name.size() - width + 3);
}

void add_numbers(const Profile& profile, std::string& text) {
  const Analysis& analysis = profile.analysis;
  std::int64_t peak = 0;
  for (const DeviceUse& use : analysis.memory) peak = std::max(peak, use.peak);
  line(text, "{:<18}{}", "step time", time_text(static_cast<double>(analysis.iteration)));
  line(text, "{:<18}{} samples/s", "throughput", number_text(analysis.samples_per_second));
  line(text, "{:<18}{}{}", "compute", rate_text(analysis.flops_per_second),
       analysis.share_of_peak > 0 ? fmt::format(", {} of the peak", percent_text(analysis.share_of_peak)) : "");
  line(text, "{:<18}{}{}", "peak memory", bytes_text(static_cast<double>(peak)),
       profile.memory.budget > 0
           ? fmt::format(" of a budget of {}", bytes_text(static_cast<double>(profile.memory.budget)))
           : "");
  line(text, "{:<18}{} ({} ramp, {} bubble)", "devices waiting", percent_text(analysis.ramp + analysis.bubble),
       percent_text(analysis.ramp), percent_text(analysis.bubble));
  line(text, "{:<18}{} ({} waiting for data)", "between calls", percent_text(analysis.host_share),
       percent_text(analysis.loading_share));
}

void add_advice(const Profile& profile, std::string& text) {
  line(text, "\nwhat to look at first");
  if (profile.analysis.advice.empty()) line(text, "  nothing stands out");
  std::size_t number = 0;
  for (const Advice& advice : profile.analysis.advice) {
    line(text, "  {}. {} ({} confidence{})", ++number, advice.title, to_string(advice.confidence),
         advice.gain > 0 ? fmt::format(", about {} less time", percent_text(advice.gain)) : "");
    line(text, "     {}", advice.why);
    line(text, "     How: {}", advice.how);
  }
}

void add_stages(const Profile& profile, std::string& text) {
  if (profile.analysis.stages.size() < 2) return;
  line(text, "\n{:<8}{:>8}{:>12}{:>12}{:>12}", "stage", "device", "forward", "backward", "update");
  for (const StageTime& stage : profile.analysis.stages) {
    line(text, "{:<8}{:>8}{:>12}{:>12}{:>12}", stage.stage, stage.device, time_text(static_cast<double>(stage.forward)),
         time_text(static_cast<double>(stage.backward)), time_text(static_cast<double>(stage.update)));
  }
}

void add_memory(const Profile& profile, std::string& text) {
  line(text, "\n{:<8}{:>12}{:>14}{:>12}{:>14}", "device", "peak", "always live", "reserved", "on the host");
  for (const DeviceUse& use : profile.analysis.memory) {
    line(text, "{:<8}{:>12}{:>14}{:>12}{:>14}", use.device, bytes_text(static_cast<double>(use.peak)),
         bytes_text(static_cast<double>(use.always_live)), bytes_text(static_cast<double>(use.reserved)),
         bytes_text(static_cast<double>(use.reserved_host)));
  }
}

void add_ops(const Profile& profile, std::string& text) {
  std::vector<const Op*> ops;
  double total = 0;
  for (const Op& op : profile.ops) {
    ops.push_back(&op);
    total += static_cast<double>(op.duration);
  }
  if (total <= 0) return;
  std::stable_sort(ops.begin(), ops.end(), [](const Op* a, const Op* b) { return a->duration > b->duration; });
  ops.resize(std::min(ops.size(), kMostRows));
  line(text, "\n{:<20}{:<36}{:>10}{:>10}{:>8}{:>8}", "op", "module", "pass", "time", "share", "calls");
  for (const Op* op : ops) {
    line(text, "{:<20}{:<36}{:>10}{:>10}{:>8}{:>8}", cut(op->name, 19), cut(op->module, 35), to_string(op->pass),
         time_text(static_cast<double>(op->duration)), percent_text(static_cast<double>(op->duration) / total),
         op->calls);
  }
}

std::string value_text(double value, const std::string& unit) {
  if (unit == "ns") return time_text(value);
  if (unit == "bytes") return bytes_text(value);
  if (unit == "share") return percent_text(value);
  if (unit == "flop/s") return rate_text(value);
  return fmt::format("{} {}", number_text(value), unit);
}

// Shares differ by points: one of 0.1 % that became 0.2 % has not doubled in any way that matters.
std::string change_text(double before, double after, std::string_view unit = "") {
  if (unit == "share") {
    const double points = 100 * (after - before);
    return std::abs(points) < 0.05 ? "same" : fmt::format("{:+.1f} pts", points);
  }
  if (before == 0) return after == 0 ? "same" : "new";
  if (after == 0) return "gone";
  const double share = after / before - 1;
  return std::abs(share) < 0.0005 ? "same" : (share > 0 ? "+" : "") + percent_text(share);
}

}  // namespace

std::string summary_text(const Profile& profile) {
  std::string text;
  const Run& run = profile.run;
  line(text, "{}: {}, {}, {} x {} devices{}", run.model, run.training ? "training" : "inference", run.execution,
       run.replicas, profile.analysis.memory.size(), run.complete ? "" : "; the run did not end");
  line(text, "{} micro-batches of {} samples a step, {} steps a call, {} calls measured; {}\n",
       run.gradient_accumulation, run.micro_batch_size, run.device_iterations, profile.analysis.calls, run.backend);
  add_numbers(profile, text);
  add_advice(profile, text);
  add_stages(profile, text);
  add_memory(profile, text);
  add_ops(profile, text);
  return text;
}

std::string summary_text(const Comparison& comparison) {
  std::string text;
  line(text, "{:<20}{:>18}{:>18}{:>10}", "", "before", "after", "change");
  for (const NumberChange& row : comparison.numbers) {
    line(text, "{:<20}{:>18}{:>18}{:>10}", row.name, value_text(row.before, row.unit), value_text(row.after, row.unit),
         change_text(row.before, row.after, row.unit));
  }
  if (!comparison.options.empty()) line(text, "\noptions that changed");
  for (const OptionChange& row : comparison.options) {
    line(text, "  {}: {} -> {}", row.name, row.before.empty() ? "default" : row.before,
         row.after.empty() ? "default" : row.after);
  }
  const std::size_t ops = std::min(comparison.ops.size(), kMostRows);
  if (ops > 0) line(text, "\n{:<20}{:<36}{:>10}{:>10}{:>10}{:>9}", "op", "module", "pass", "before", "after", "change");
  for (std::size_t i = 0; i < ops; ++i) {
    const OpChange& row = comparison.ops[i];
    line(text, "{:<20}{:<36}{:>10}{:>10}{:>10}{:>9}", cut(row.name, 19), cut(row.module, 35), row.pass,
         time_text(row.before), time_text(row.after), change_text(row.before, row.after));
  }
  const std::size_t buffers = std::min(comparison.buffers.size(), kMostRows);
  if (buffers > 0) line(text, "\n{:<48}{:<18}{:>10}{:>10}{:>9}", "buffer", "kind", "before", "after", "change");
  for (std::size_t i = 0; i < buffers; ++i) {
    const BufferChange& row = comparison.buffers[i];
    line(text, "{:<48}{:<18}{:>10}{:>10}{:>9}", cut(row.name, 47), row.kind, bytes_text(row.before),
         bytes_text(row.after), change_text(row.before, row.after));
  }
  return text;
}

}  // namespace aspen::profile
