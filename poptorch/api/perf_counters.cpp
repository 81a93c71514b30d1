#include "poptorch/api/perf_counters.h"

#include <fmt/format.h>

#include <algorithm>

#include "poptorch/api/spelling.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

using Seconds = std::vector<double>;
using Tensors = std::vector<aspen::TransferTimes::Tensor>;

PerfCounters::Times times_of(const Tensors& tensors, Seconds aspen::TransferTimes::Tensor::*event) {
  PerfCounters::Times times;
  for (const auto& tensor : tensors) times.push_back(tensor.*event);
  if (times.empty()) times.emplace_back();
  return times;
}

// Of all tensors together, by transfer.
template <class Choose>
Seconds over_tensors(const PerfCounters::Times& times, const Choose& choose) {
  Seconds result = times.front();
  for (const Seconds& tensor : times) {
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = choose(result[i], tensor[i]);
  }
  return result;
}

constexpr auto kFirst = [](double a, double b) { return std::min(a, b); };
constexpr auto kLast = [](double a, double b) { return std::max(a, b); };

// The earliest of the starts that belong to each end: both are ordered by micro-batch, then replica.
Seconds shared_out(const Seconds& starts, std::size_t num_ends, std::size_t replicas) {
  const std::size_t per_end = starts.size() / num_ends;  // micro-batches
  Seconds earliest;
  for (std::size_t end = 0; end < num_ends; ++end) {
    const std::size_t first = end / replicas * per_end, replica = end % replicas;
    double start = starts[first * replicas + replica];
    for (std::size_t i = 1; i < per_end; ++i) start = std::min(start, starts[(first + i) * replicas + replica]);
    earliest.push_back(start);
  }
  return earliest;
}

Latency between(const Seconds& all_starts, const Seconds& ends, std::size_t replicas) {
  if (all_starts.empty() || ends.empty()) return {};
  const Seconds starts = shared_out(all_starts, ends.size(), replicas);
  Seconds taken;
  for (std::size_t i = 0; i < ends.size(); ++i) taken.push_back(ends[i] - starts[i]);
  const auto [least, most] = std::minmax_element(taken.begin(), taken.end());
  double sum = 0;
  for (const double seconds : taken) sum += seconds;
  return {*least, *most, sum / static_cast<double>(taken.size())};
}

}  // namespace

PerfCounters perf_counters(const Session& session) {
  using Tensor = aspen::TransferTimes::Tensor;
  const aspen::TransferTimes transfers = session.transfers();
  return {times_of(transfers.inputs, &Tensor::begin), times_of(transfers.inputs, &Tensor::end),
          times_of(transfers.outputs, &Tensor::begin), times_of(transfers.outputs, &Tensor::end)};
}

Latency latency(const Session& session, LatencyOf part) {
  const PerfCounters counters = perf_counters(session);
  if (counters.output.front().empty()) return {};
  const std::size_t replicas = session.num_replicas();
  switch (part) {
    case LatencyOf::kCall:
      return between(over_tensors(counters.input, kFirst), over_tensors(counters.output_complete, kLast), replicas);
    case LatencyOf::kHostToIpu:
      return between(over_tensors(counters.input, kFirst), over_tensors(counters.input_complete, kLast), replicas);
    case LatencyOf::kCompute:
      return between(over_tensors(counters.input_complete, kLast), over_tensors(counters.output, kLast), replicas);
    case LatencyOf::kIpuToHost: break;
  }
  return between(over_tensors(counters.output, kFirst), over_tensors(counters.output_complete, kLast), replicas);
}

std::int64_t cycle_count(const Session& session, const OptionStore& options) {
  if (!options.popart_flag("instrumentWithHardwareCycleCounter")) {
    throw Error(
        fmt::format("[cycleCount] cycles are not counted; set options.logCycleCount({}) before the model is "
                    "wrapped.",
                    spelled(true)));
  }
  const std::optional<std::int64_t> cycles = session.cycles();
  if (!cycles) throw Error("[cycleCount] the model has not run yet; call it first.");
  return *cycles;
}

}  // namespace poptorch
