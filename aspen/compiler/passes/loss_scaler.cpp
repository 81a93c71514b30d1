#include "aspen/compiler/passes/loss_scaler.h"

#include <algorithm>

#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"
#include "aspen/ops/loss_scale/loss_scale.h"

namespace aspen {
namespace {

constexpr double kLargestHalf = 65504, kLeastHalf = 0x1p-14;  // the least that has all its digits
constexpr std::size_t kLarge = 0, kNotFinite = 1;             // of the results of gradient_statistics

bool is_product(const Op& op) {
  return op.is("dot") || op.is("conv") || op.is("conv_input_grad") || op.is("conv_weight_grad");
}

Value* entry(Builder& b, Value* vector, std::size_t place) {
  auto at = static_cast<std::int64_t>(place);
  return build::reshape(b, build::slice(b, vector, 0, at, at + 1), {});
}

}  // namespace

struct LossScaler::Group {
  const Op* first;
  std::vector<Value*> gradients;

  double numel() const {
    double sum = 0;
    for (const Value* gradient : gradients) sum += static_cast<double>(gradient->type().numel());
    return sum;
  }
};

LossScaler::LossScaler(Graph& graph, const CompileOptions& options, Variable* settings, Section section)
    : graph_(graph), b_(graph), options_(options), settings_(settings), section_(section) {
  if (!is_automatic()) return;
  factor_ = graph_.add_variable("lossScaleUpdateFactor", VariableKind::kOptimizerState, {DType::kF32, {}});
  factor_->initial = 1;
}

Value* LossScaler::setting(Builder& b) const { return entry(b, settings_->value.get(), kLossScaling); }

Value* LossScaler::scale(Builder& b) const {
  return is_automatic() ? build::mul(b, setting(b), factor_->value.get()) : setting(b);
}

void LossScaler::scale_seed() {
  Value* seed = find_value(graph_, kSeedName);
  if (seed == nullptr || !seed->is_used()) return;
  b_.like(*seed->producer());
  // Autodiff appends, so the first use is the first in the graph. The seed may also be a gradient and nothing else.
  b_.before = seed->users().empty() ? nullptr : seed->users().front();
  Value* factor = scale(b_);
  if (is_automatic()) factor->set_name("finalLossScale");
  Value* scaled = build::mul(b_, seed, build::cast(b_, factor, seed->dtype()));
  graph_.replace_uses(seed, scaled);
  scaled->producer()->set_input(0, seed);
  b_.before = nullptr;
}

// By stage, in the order of the graph. Half gradients; in a model without half, all.
std::vector<LossScaler::Group> LossScaler::find_gradients() const {
  bool only_products = options_.automatic_loss_scaling->only_products;
  for (bool only_half : {true, false}) {
    std::vector<Group> groups;
    for (const auto& op : graph_.ops()) {
      if (!op->backward || op->num_inputs() == 0 || only_moves(*op) || (only_products && !is_product(*op))) continue;
      for (Value* output : op->outputs()) {
        if (!is_floating(output->dtype()) || (only_half && output->dtype() != DType::kF16)) continue;
        auto group = std::find_if(groups.begin(), groups.end(),
                                  [&](const Group& g) { return g.first->placement == op->placement; });
        if (group == groups.end()) group = groups.insert(group, Group{op.get(), {}});
        group->gradients.push_back(output);
      }
    }
    if (!groups.empty()) return groups;
  }
  return {};
}

Value* LossScaler::count(const Group& group) {
  GradientStatisticsAttrs attrs{options_.automatic_loss_scaling->bin_edge * kLargestHalf};
  Value* sum = nullptr;
  for (Value* gradient : group.gradients) {
    b_.like(*gradient->producer());
    Value* statistics = b_.make("gradient_statistics", {gradient}, attrs);
    sum = sum == nullptr ? statistics : build::add(b_, sum, statistics);
  }
  return sum;
}

// The count of a whole update, read in its section.
Value* LossScaler::kept_count(Value* statistics, std::size_t number) {
  if (section_ == Section::kStep) return entry(b_, statistics, kLarge);
  Variable* kept = graph_.add_variable(fmt::format("GradientStatistics___{}", number), VariableKind::kAccumulator,
                                       statistics->type());
  kept->reduced = options_.replicas > 1;
  Value* sum = kept->value.get();
  bool has_one = options_.gradient_accumulation == 1;
  b_.emit("assign", {sum, has_one ? statistics : build::add(b_, sum, statistics)});
  b_.section = Section::kUpdate;
  b_.backward = false;
  Value* read = entry(b_, sum, kLarge);
  if (!has_one) b_.emit("assign", {sum, build::full_like(b_, sum, 0)});
  return read;
}

void LossScaler::adjust(const Op& home) {
  if (!is_automatic()) return;
  const AutomaticLossScaling& automatic = *options_.automatic_loss_scaling;
  Value* large = nullptr;
  double numel = 0;
  const auto go_home = [&] {
    b_.like(home);
    b_.no_grad = false;
    b_.section = section_;
    b_.backward = section_ == Section::kStep;
  };
  std::vector<Group> groups = find_gradients();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Value* part = kept_count(count(groups[i]), i);
    go_home();
    large = large == nullptr ? part : build::add(b_, large, part);
    numel += groups[i].numel();
  }
  if (large == nullptr) return;
  Value* updates = build::scalar(b_, DType::kF32, 0);
  if (automatic.period > 1) {
    Variable* counter = graph_.add_variable("lossScaleUpdates", VariableKind::kOptimizerState, {DType::kF32, {}});
    updates = counter->value.get();
    b_.emit("assign", {updates, build::add(b_, updates, 1)});
  }
  double contributions = static_cast<double>(options_.gradient_accumulation) * static_cast<double>(options_.replicas);
  LossScaleUpdateAttrs attrs{.total = numel * contributions,
                             .threshold = automatic.threshold,
                             .largest = kLargestHalf,
                             .least = kLeastHalf,
                             .period = automatic.period};
  Value* next = b_.make("loss_scale_update", {factor_->value.get(), setting(b_), large, updates}, attrs);
  b_.emit("assign", {factor_->value.get(), next});
}

Value* LossScaler::is_usable(Builder& b, Value* gradient) const {
  if (!is_automatic()) return nullptr;
  Value* statistics = b.make("gradient_statistics", {gradient}, GradientStatisticsAttrs{kLargestHalf});
  return build::binary(b, "eq", entry(b, statistics, kNotFinite), 0.0);
}

}  // namespace aspen
