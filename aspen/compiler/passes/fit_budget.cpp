#include "aspen/compiler/passes/fit_budget.h"

#include <algorithm>
#include <set>

#include "aspen/base/log.h"
#include "aspen/compiler/build_program.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/clone_graph.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/pipeline.h"

namespace aspen {
namespace {

constexpr double kWorthTelling = 0.99;  // of what a device takes: a remedy that leaves more is none

using Remedies = std::set<Remedy>;  // in the order of their costs

const char* name_of(Remedy remedy) {
  switch (remedy) {
    case Remedy::kOptimizerStateOffDevice: return "optimiser state off the device";
    case Remedy::kRecomputeNorms: return "normalisations and activations computed again";
    case Remedy::kRecomputeParts: return "the forward pass computed again in parts";
    case Remedy::kAccumulatorsOffDevice: return "gradient accumulators off the device";
    case Remedy::kActivationsOffDevice: return "activations off the device";
    case Remedy::kWeightsOffDevice: break;
  }
  return "weights off the device";
}

void apply(Remedy remedy, CompileOptions& options) {
  switch (remedy) {
    case Remedy::kOptimizerStateOffDevice: options.locations.optimizer_state.off_device = true; return;
    case Remedy::kRecomputeNorms: options.recompute = Recompute::kNorms; return;
    case Remedy::kRecomputeParts: options.recompute = Recompute::kParts; return;
    case Remedy::kAccumulatorsOffDevice: options.locations.accumulators.off_device = true; return;
    case Remedy::kActivationsOffDevice: options.locations.activations.off_device = true; return;
    case Remedy::kWeightsOffDevice: options.locations.weights.off_device = true; return;
  }
}

bool is_applied(Remedy remedy, const CompileOptions& options) {
  switch (remedy) {
    case Remedy::kOptimizerStateOffDevice: return options.locations.optimizer_state.off_device;
    case Remedy::kRecomputeNorms: return options.recompute == Recompute::kNorms;
    case Remedy::kRecomputeParts: return options.recompute == Recompute::kParts;
    case Remedy::kAccumulatorsOffDevice: return options.locations.accumulators.off_device;
    case Remedy::kActivationsOffDevice: return options.locations.activations.off_device;
    case Remedy::kWeightsOffDevice: break;
  }
  return options.locations.weights.off_device;
}

// Whether it can make a difference: only training keeps anything for a backward pass or an update.
bool is_of_use(Remedy remedy, const CompileOptions& options) {
  return (options.training || remedy == Remedy::kWeightsOffDevice) && !is_applied(remedy, options);
}

// Multiplications and additions, about.
double flops_of(const Op& op) {
  if (op.def().is_alias() || op.is("assign") || op.is("load") || op.is("store") || op.is("send")) return 0;
  double sum = 2 * op.def().num_products(op);
  for (const Value* output : op.outputs()) sum += static_cast<double>(output->type().numel());
  for (const Graph* body : bodies_of(op)) {
    for (const auto& inner : body->ops()) sum += flops_of(*inner);
  }
  return sum;
}

// Between a device and what is kept off it.
double moved_bytes_of(const Op& op) {
  if (op.is("load") || op.is("store")) return static_cast<double>(op.input(0)->type().bytes());
  const bool is_written = op.is("assign") && op.input(0)->variable()->off_device;
  return is_written ? static_cast<double>(op.input(0)->type().bytes()) : 0;
}

// What a program takes: memory of each device, and work per micro-batch.
struct Outcome {
  std::vector<DeviceFootprint> devices;
  double flops = 0, moved_bytes = 0;

  std::size_t excess() const {
    std::size_t sum = 0;
    for (const DeviceFootprint& device : devices) sum += device.excess();
    return sum;
  }
};

class BudgetFitter {
 public:
  BudgetFitter(const Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), asked_(context.options),
        passes_(passes_after("fit_budget", context.options.training)) {}

  Remedies run() {
    const Outcome asked = outcome({});
    if (asked.excess() == 0) return {};
    if (!asked_.memory_budget.automatic) fail(asked);
    Outcome best = asked;
    Remedies chosen;
    for (Remedy remedy : useful()) {
      Remedies more = chosen;
      more.insert(remedy);
      if (remedy == Remedy::kRecomputeParts) more.erase(Remedy::kRecomputeNorms);  // which are a part of them
      Outcome tried = outcome(more);
      if (tried.excess() >= best.excess()) continue;
      best = std::move(tried);
      chosen = std::move(more);
      if (best.excess() == 0) break;
    }
    if (best.excess() != 0) fail_in_spite_of(chosen, best);
    drop_superfluous(chosen, best);
    report(chosen, asked, best);
    return chosen;
  }

 private:
  std::vector<Remedy> useful() const {
    std::vector<Remedy> found;
    for (std::size_t i = 0; i < kNumRemedies; ++i) {
      if (is_of_use(static_cast<Remedy>(i), asked_)) found.push_back(static_cast<Remedy>(i));
    }
    return found;
  }

  Outcome outcome(const Remedies& remedies) const {
    CompileOptions options = asked_;
    options.progress = nullptr;
    for (Remedy remedy : remedies) apply(remedy, options);
    const auto graph = clone_graph(graph_);
    graph->set_name(graph_.name() + ".trial");
    run_passes(*graph, passes_, {.options = options, .backend = context_.backend});
    Outcome found{.devices = footprint_of(*build_program(*graph, options, *context_.backend))};
    const auto updates = 1 / static_cast<double>(options.gradient_accumulation);
    for (const auto& op : graph->ops()) {
      const double times = op->section == Section::kStep ? 1 : updates;
      found.flops += times * flops_of(*op);
      found.moved_bytes += times * moved_bytes_of(*op);
    }
    return found;
  }

  void drop_superfluous(Remedies& chosen, Outcome& best) const {
    const std::vector<Remedy> by_cost(chosen.rbegin(), chosen.rend());
    for (Remedy remedy : by_cost) {
      if (chosen.size() == 1) return;
      Remedies fewer = chosen;
      fewer.erase(remedy);
      Outcome tried = outcome(fewer);
      if (tried.excess() != 0) continue;
      chosen = std::move(fewer);
      best = std::move(tried);
    }
  }

  void report(const Remedies& chosen, const Outcome& asked, const Outcome& best) const {
    std::string names;
    for (Remedy remedy : chosen) {
      names += fmt::format("\n  {}", name_of(remedy));
      if (asked_.memory_budget.spelled) names += fmt::format(": {}", asked_.memory_budget.spelled(remedy));
    }
    log::info(
        "[memory budget] {} takes {} as asked and {} with{}\n  per micro-batch: {:+.1f} MFLOP ({:+.0f} %), {:+.2f} MiB "
        "moved to and from the devices",
        graph_.name(), summary(asked), summary(best), names, (best.flops - asked.flops) / 1e6,
        100 * (best.flops - asked.flops) / asked.flops, (best.moved_bytes - asked.moved_bytes) / (1 << 20));
  }

  static std::string summary(const Outcome& outcome) {
    std::string text;
    for (std::size_t i = 0; i < outcome.devices.size(); ++i) {
      const DeviceFootprint& device = outcome.devices[i];
      if (device.budget_bytes == 0) continue;
      text += fmt::format("{}{} of {} on IPU {}", text.empty() ? "" : ", ", in_mebibytes(device.total()),
                          in_mebibytes(device.budget_bytes), i);
    }
    return text;
  }

  // What each remedy alone would do.
  std::string advice(const Outcome& asked) const {
    std::string text;
    for (Remedy remedy : useful()) {
      const Outcome tried = outcome({remedy});
      std::string saved;
      for (std::size_t i = 0; i < asked.devices.size(); ++i) {
        const auto before = static_cast<double>(asked.devices[i].total());
        const auto after = static_cast<double>(tried.devices[i].total());
        const bool fits = tried.devices[i].excess() == 0;
        if (asked.devices[i].excess() == 0 || (!fits && after > kWorthTelling * before)) continue;
        saved += fmt::format("{}{:.2f} MiB on IPU {}{}", saved.empty() ? "" : ", ", (before - after) / (1 << 20), i,
                             fits ? " (fits)" : "");
      }
      if (saved.empty()) continue;
      text += fmt::format("\n    {} saves {}", name_of(remedy), saved);
      if (asked_.memory_budget.spelled) text += fmt::format(":\n      {}", asked_.memory_budget.spelled(remedy));
    }
    return text;
  }

  [[noreturn]] void fail(const Outcome& asked) const {
    const std::string ways = advice(asked);
    throw UserError(
        "[memory budget] {} does not fit: {}.\n{}\n  ways out:{}\n    let the compiler choose, with an automatic "
        "budget; raise it; smaller micro-batches; more IPUs",
        graph_.name(), summary(asked), table_of(asked.devices), ways);
  }

  [[noreturn]] void fail_in_spite_of(const Remedies& chosen, const Outcome& best) const {
    std::string names;
    for (Remedy remedy : chosen) names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(remedy));
    throw UserError(
        "[memory budget] {} does not fit, whatever is moved off the devices or computed again: {}{}.\n{}\n  ways out: "
        "raise the budget; smaller micro-batches; more IPUs",
        graph_.name(), summary(best), names.empty() ? "" : " with " + names, table_of(best.devices));
  }

  const Graph& graph_;
  const PassContext& context_;
  const CompileOptions& asked_;
  std::vector<Pass> passes_;  // that follow
};

}  // namespace

void fit_budget(Graph& graph, const PassContext& context) {
  if (!context.options.memory_budget.is_set() || context.backend == nullptr) return;
  const Remedies chosen = BudgetFitter(graph, context).run();
  if (chosen.empty()) return;
  if (context.chosen == nullptr) throw InternalError("fit_budget has nowhere to write down what it has chosen");
  for (Remedy remedy : chosen) apply(remedy, *context.chosen);
}

void check_budget(const Program& program) {
  const std::vector<DeviceFootprint> devices = footprint_of(program);
  const bool is_over = std::any_of(devices.begin(), devices.end(), [](const auto& d) { return d.excess() != 0; });
  if (is_over) throw UserError("[memory budget] {} does not fit.\n{}", program.name, table_of(devices));
}

}  // namespace aspen
