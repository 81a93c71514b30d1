#include "aspen/compiler/passes/insert_optimizer.h"

#include <cmath>
#include <map>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"
#include "aspen/ops/optimizer/optimizer.h"

namespace aspen {
namespace {

// The op that updates the parameters of a group, and the states it keeps for each.
struct Update {
  std::string op;
  Attrs attrs;
  std::vector<double> initial_states = {};
};

Update update_of(const OptimizerSpec& spec, const OptimizerSpec::Group& group) {
  if (spec.kind == "sgd") {
    return {"sgd", Attrs::of(SgdAttrs{.momentum = group.momentum, .nesterov = group.nesterov}),
            std::vector<double>(group.momentum ? 1 : 0, 0.0)};
  }
  if (spec.kind == "adam" || spec.kind == "adamw") {
    AdamAttrs attrs{.decoupled = spec.kind == "adamw", .bias_correction = spec.bias_correction};
    return {"adam", Attrs::of(attrs), {0, 0}};
  }
  if (spec.kind == "rmsprop") {
    RmspropAttrs attrs{.momentum = group.momentum, .centered = spec.centered, .tf_variant = spec.tf_variant};
    std::vector<double> states{spec.tf_variant ? 1.0 : 0.0};
    states.resize(1 + (spec.centered ? 1 : 0) + (group.momentum ? 1 : 0), 0.0);
    return {"rmsprop", Attrs::of(attrs), std::move(states)};
  }
  if (spec.kind == "lamb") return {"lamb", Attrs::of(LambAttrs{.bias_correction = spec.bias_correction}), {0, 0}};
  throw UserError("unknown optimizer \"{}\"; the kinds are sgd, adam, adamw, rmsprop and lamb.", spec.kind);
}

class OptimizerInserter {
 public:
  OptimizerInserter(Graph& graph, const CompileOptions& options)
      : graph_(graph), b_(graph), spec_(options.optimizer), is_accumulated_(options.gradient_accumulation > 1) {}

  void run() {
    add_settings();
    auto gradients = find_updated();
    if (gradients.empty()) return;
    if (spec_.scales_loss) scale_seed();
    b_.like(*gradients[0].gradient->producer());  // among others the section
    unscale_and_clip(gradients);
    Variable* step = graph_.add_variable("Step___", VariableKind::kOptimizerState, {DType::kF32, {}});
    for (auto& entry : gradients) update(entry, step);
    b_.emit("assign", {step->value.get(), build::add(b_, step->value.get(), 1)});
  }

 private:
  void add_settings() {
    for (std::size_t i = 0; i < spec_.groups.size(); ++i) {
      TensorType type{DType::kF32, {static_cast<std::int64_t>(kNumSettings)}};
      settings_.push_back(graph_.add_variable(fmt::format("settings___{}", i), VariableKind::kSetting, type));
      for (const auto& parameter : spec_.groups[i].parameters) group_of_.emplace(parameter, i);
    }
  }

  // Gradients of parameters that belong to a group.
  std::vector<ParameterGradient> find_updated() const {
    auto gradients = find_gradients(graph_, is_accumulated_ ? kReducedPrefix : kGradientPrefix);
    std::erase_if(gradients,
                  [&](const ParameterGradient& entry) { return group_of_.count(entry.parameter->name) == 0; });
    return gradients;
  }

  Value* loss_scale() {
    Value* settings = settings_[0]->value.get();
    auto place = static_cast<std::int64_t>(kLossScaling);
    return build::reshape(b_, build::slice(b_, settings, 0, place, place + 1), {});
  }

  void scale_seed() {
    Value* seed = find_value(graph_, kSeedName);
    if (seed == nullptr || seed->users().empty()) return;
    b_.like(*seed->producer());
    b_.backward = true;
    b_.before = seed->users().front();  // autodiff appends, so the first use is the first in the graph
    Value* scale = build::cast(b_, loss_scale(), seed->dtype());
    Value* scaled = build::mul(b_, seed, scale);
    graph_.replace_uses(seed, scaled);
    scaled->producer()->set_input(0, seed);
    b_.before = nullptr;
    b_.backward = false;
  }

  // Divides by the loss scale and brings the norm over all gradients below max_grad_norm, as clip_grad_norm_ does.
  void unscale_and_clip(std::vector<ParameterGradient>& gradients) {
    bool clips = std::isfinite(spec_.max_grad_norm);
    if (!spec_.scales_loss && !clips) return;
    Value* factor = nullptr;
    Value* scale = spec_.scales_loss ? loss_scale() : nullptr;
    if (clips) {
      Value* norm_squared = nullptr;
      for (auto& entry : gradients) {
        Value* part = build::unary(b_, "square_sum", entry.gradient);
        norm_squared = norm_squared == nullptr ? part : build::add(b_, norm_squared, part);
      }
      if (scale != nullptr) norm_squared = build::div(b_, norm_squared, build::mul(b_, scale, scale));
      factor = b_.make("clip_scale", {norm_squared}, ClipScaleAttrs{spec_.max_grad_norm});
      if (scale != nullptr) factor = build::div(b_, factor, scale);
    }
    for (auto& entry : gradients) {
      b_.like(*entry.gradient->producer());
      // In float32: what scaling has saved from vanishing in half must not vanish now.
      Value* gradient = build::cast(b_, entry.gradient, DType::kF32);
      entry.gradient = clips ? build::mul(b_, gradient, factor) : build::div(b_, gradient, scale);
    }
  }

  void update(const ParameterGradient& entry, Variable* step) {
    Variable& parameter = *entry.parameter;
    std::size_t group = group_of_.at(parameter.name);
    Update kind = update_of(spec_, spec_.groups[group]);
    b_.like(*entry.gradient->producer());
    std::vector<Value*> inputs{current(parameter), entry.gradient, settings_[group]->value.get(), step->value.get()};
    std::vector<Variable*> written{&parameter};
    for (std::size_t i = 0; i < kind.initial_states.size(); ++i) {
      written.push_back(graph_.add_variable(fmt::format("Accl{}___{}", i + 1, parameter.name),
                                            VariableKind::kOptimizerState, {DType::kF32, parameter.value->shape()}));
      written.back()->initial = kind.initial_states[i];
      inputs.push_back(written.back()->value.get());
    }
    Op* op = b_.emit(kind.op, std::move(inputs), kind.attrs);
    op->output()->set_name("UpdatedVar___" + parameter.name);
    for (std::size_t i = 0; i < written.size(); ++i) b_.emit("assign", {written[i]->value.get(), op->output(i)});
  }

  // What the parameter holds when it is updated: its value, or what the model itself assigned to it in this section.
  Value* current(const Variable& parameter) {
    for (Op* user : parameter.value->users()) {
      if (!user->is("assign") || user->input(0) != parameter.value.get() || user->section != b_.section) continue;
      Value* written = user->input(1);
      graph_.erase(user);
      return written;
    }
    return parameter.value.get();
  }

  Graph& graph_;
  Builder b_;
  const OptimizerSpec& spec_;
  bool is_accumulated_;
  std::vector<Variable*> settings_;
  std::map<std::string, std::size_t, std::less<>> group_of_;
};

}  // namespace

void insert_optimizer(Graph& graph, const PassContext& context) {
  if (!context.options.optimizer.kind.empty()) OptimizerInserter(graph, context.options).run();
}

}  // namespace aspen
