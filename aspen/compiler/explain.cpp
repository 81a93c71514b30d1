#include "aspen/compiler/explain.h"

#include <map>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/placement/task_cost.h"
#include "aspen/ops/shape/shape.h"

namespace aspen {
namespace {

constexpr double kMicrosecond = 1e3, kMillisecond = 1e6;

// Lines with how often they occur, in the order of their first.
class Tally {
 public:
  void add(const std::string& line) {
    if (counts_[line]++ == 0) order_.push_back(line);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> result;
    for (const std::string& line : order_) result.push_back(fmt::format("{} x {}", counts_.at(line), line));
    return result;
  }

 private:
  std::map<std::string, int> counts_;
  std::vector<std::string> order_;
};

}  // namespace

std::vector<std::string> explain_fusion(const Graph& graph) {
  Tally groups;
  for (const auto& op : graph.ops()) {
    if (op->is("group")) groups.add(fmt::format("{}", fmt::join(parts_of(op->attrs()), ", ")));
  }
  return groups.lines();
}

std::vector<std::string> explain_reorders(const Graph& graph) {
  Tally reorders;
  for (const auto& op : graph.ops()) {
    if (!op->is("transpose")) continue;
    reorders.add(fmt::format("{} by ({}): {:.1f} us", to_string(op->input(0)->type()),
                             fmt::join(op->attrs<TransposeAttrs>().permutation, ", "),
                             estimate_nanoseconds(*op) / kMicrosecond));
  }
  return reorders.lines();
}

std::vector<std::string> explain_time(const Program& program) {
  std::vector<std::string> lines;
  for (std::size_t device = 0; device < program.devices.size(); ++device) {
    const DeviceGuess guess = guessed_nanoseconds(program, device);
    lines.push_back(fmt::format("device {}: {:.3f} ms for each micro-batch, {:.3f} ms for an update", device,
                                guess.micro_batch / kMillisecond, guess.update / kMillisecond));
  }
  return lines;
}

void log_explanation(const Graph& graph, const Program& program) {
  if (!log::is_enabled(log::Level::kDebug)) return;
  for (const std::string& line : explain_fusion(graph)) log::debug("[program] runs as one: {}", line);
  for (const std::string& line : explain_reorders(graph)) log::debug("[program] reordered: {}", line);
  for (const std::string& line : explain_time(program)) log::debug("[program] guessed from shapes, {}", line);
}

}  // namespace aspen
